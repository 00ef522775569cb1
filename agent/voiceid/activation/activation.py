"""What every kind of activation offers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Protocol

from voiceid.types import Samples


@unique
class ActivationKind(StrEnum):
    """The closed set of reasons to listen."""

    WAKE_WORD = "wake_word"
    PUSH_TO_TALK = "push_to_talk"
    VOICE = "voice"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Activated:
    """The moment to listen; the last ``lookback`` seconds, the activating frame included, belong to the utterance."""

    kind: ActivationKind
    lookback: float
    wake_word: str | None = None
    probability: float | None = None
    """The engine's, of the wake word."""


class Activation(Protocol):
    """Watches audio for the moment to listen."""

    kind: ActivationKind

    def feed(self, samples: Samples) -> Activated | None:
        """Hear the next frame: float32 (:data:`voiceid.audio.vad.FRAME`,) at 16 kHz."""

    def reset(self) -> None:
        """Forget what was heard: after a gap in the audio, and after an utterance."""
