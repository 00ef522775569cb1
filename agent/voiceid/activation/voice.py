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
    """Activates when somebody begins to speak."""

    kind = ActivationKind.VOICE

    def __init__(self) -> None:
        self._vad = StreamingVad()
        self._voiced: deque[bool] = deque(maxlen=WINDOW)

    def feed(self, samples: Samples) -> Activated | None:
        self._voiced.append(self._vad.is_speech(samples))
        if sum(self._voiced) < ENOUGH:
            return None
        self._voiced.clear()
        return Activated(self.kind, LOOKBACK)

    def reset(self) -> None:
        self._vad.reset()
        self._voiced.clear()
