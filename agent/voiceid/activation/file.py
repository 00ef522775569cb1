"""Activation by a recording: it is the utterance."""

from __future__ import annotations

from voiceid.activation.activation import Activated, ActivationKind
from voiceid.audio.vad import FRAME_SECONDS
from voiceid.types import Samples


class FileActivation:
    """Activates at the first frame, and again after each reset."""

    kind = ActivationKind.FILE

    def __init__(self) -> None:
        self._begun = False

    def feed(self, samples: Samples) -> Activated | None:
        if self._begun:
            return None
        self._begun = True
        return Activated(self.kind, lookback=FRAME_SECONDS)

    def reset(self) -> None:
        self._begun = False
