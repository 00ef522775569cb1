"""Activation by any speech."""

from __future__ import annotations

from collections import deque

from voiceid.activation.activation import Activated, ActivationKind
from voiceid.audio.streaming_vad import StreamingVad
from voiceid.audio.vad import FRAME_SECONDS
from voiceid.types import Samples

WINDOW = round(0.3 / FRAME_SECONDS)
ENOUGH = round(0.21 / FRAME_SECONDS)
"""Frames of speech within ``WINDOW`` that are no click any more."""
LOOKBACK = 0.6
"""Seconds before the activation that belong to the utterance: the window and the breath before it."""


class VoiceActivation:
    """Activates when somebody begins to speak, and again after a pause."""

    kind = ActivationKind.VOICE

    def __init__(self) -> None:
        self._vad = StreamingVad()
        self._voiced: deque[bool] = deque(maxlen=WINDOW)
        self._speaking = False

    def feed(self, samples: Samples) -> Activated | None:
        self._voiced.append(self._vad.is_speech(samples))
        before = self._speaking
        self._speaking = any(self._voiced) if before else sum(self._voiced) >= ENOUGH
        return Activated(self.kind, LOOKBACK) if self._speaking and not before else None

    def reset(self) -> None:
        self._vad.reset()
        self._voiced.clear()
        self._speaking = False
