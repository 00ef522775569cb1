"""The wake word engines, each behind the same small interface; their packages are the extra ``voiceid[wakeword]``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from voiceid.errors import MissingPackageError, SettingsError
from voiceid.types import SAMPLE_RATE

OPEN_THRESHOLD = 0.5
"""Probability from which openWakeWord's authors count a word as said; micro models name their own."""

OPEN_PRIMING = 2.2
"""Seconds of silence that openWakeWord starts from: its windows must be full before it answers. It brings eight, which
is a second of work on a desktop computer."""


class WakeWordEngine(Protocol):
    """Looks for one word in a stream."""

    threshold: float
    """Probability from which the engine's makers count the word as said."""

    def feed(self, pcm: bytes) -> float:
        """The highest probability of the word at the end of any part of ``pcm`` (mono, 16 kHz, 16-bit)."""

    def reset(self) -> None:
        """Forget what was heard."""


def make_engine(name: Literal["micro", "open"], word: str) -> WakeWordEngine:
    """The engine called ``name``, loaded for ``word``.

    Raises:
        MissingPackageError: its package is not installed.
        SettingsError: it does not know the word.
    """
    return MicroEngine(word) if name == "micro" else OpenEngine(word)


class MicroEngine:
    """microWakeWord: a few thousandths of a core on a desktop computer."""

    def __init__(self, word: str) -> None:
        try:
            from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model
        except ImportError:
            raise _missing("micro", "pymicro-wakeword") from None
        self._model = MicroWakeWord.from_builtin(_known(word, Model, "micro"))
        self._features = MicroWakeWordFeatures()
        self.threshold = float(self._model.probability_cutoff)

    def feed(self, pcm: bytes) -> float:
        features = self._features.process_streaming(pcm)
        return max((self._model.process_streaming_prob(part) or 0.0 for part in features), default=0.0)

    def reset(self) -> None:
        self._model.reset()
        self._features.reset()


class OpenEngine:
    """openWakeWord: larger models, some thirty times the work."""

    threshold = OPEN_THRESHOLD

    def __init__(self, word: str) -> None:
        try:
            from pyopen_wakeword import Model, OpenWakeWord, OpenWakeWordFeatures
        except ImportError:
            raise _missing("open", "pyopen-wakeword") from None
        self._model = OpenWakeWord.from_builtin(_known(word, Model, "open"))
        self._features = OpenWakeWordFeatures.from_builtin()
        self._prime()

    def feed(self, pcm: bytes) -> float:
        parts = self._features.process_streaming(pcm)
        return max((p for part in parts for p in self._model.process_streaming(part)), default=0.0)

    def reset(self) -> None:
        self._model.reset()
        self._features.reset()
        self._prime()

    def _prime(self) -> None:
        self._features.new_audio_samples = round(OPEN_PRIMING * SAMPLE_RATE)


def _known(word: str, models: Iterable[Any], engine: str) -> Any:
    words = {model.value: model for model in models}
    if word not in words:
        raise SettingsError(f"activation: engine {engine!r} does not know wake_word {word!r}; use {', '.join(words)}")
    return words[word]


def _missing(engine: str, package: str) -> MissingPackageError:
    return MissingPackageError(
        f"the wake word engine {engine!r} needs {package}; install it with: pip install 'voiceid[wakeword]', or choose "
        "another activation kind in the configuration"
    )
