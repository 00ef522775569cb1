"""Voice activity frame by frame, for audio that is still coming."""

from __future__ import annotations

import numpy as np
import webrtcvad

from voiceid.audio.vad import FRAME_FLOOR_DB, FRAME_SECONDS, VAD_LEVEL
from voiceid.types import SAMPLE_RATE, Samples

DECAY_DB = 3.0
"""Decibels a second by which the memory of the loudest speech fades."""
MAX_GAIN = 30.0
"""Quiet audio is raised at most this much: more would turn a microphone's own noise into speech."""
_DECAY = 10 ** (-DECAY_DB * FRAME_SECONDS / 10)
_LEAST = (VAD_LEVEL / MAX_GAIN) ** 2


class StreamingVad:
    """WebRTC's detector behind a gain that follows the loudest recent frames.

    The rules are those of :func:`voiceid.audio.vad.speech_segments`, which sees whole recordings: quiet audio is raised
    before detection, and frames far below the loud ones are background.
    """

    def __init__(self, *, aggressiveness: int = 2) -> None:
        self._aggressiveness = aggressiveness
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self._detector = webrtcvad.Vad(self._aggressiveness)
        self._loud = 0.0

    def is_speech(self, samples: Samples) -> bool:
        """Whether the next frame, float32 (:data:`voiceid.audio.vad.FRAME`,) at 16 kHz, is speech."""
        power = float(np.mean(np.square(samples, dtype=np.float64)))
        self._loud = max(power, self._loud * _DECAY)
        gain = max(1.0, VAD_LEVEL / np.sqrt(max(self._loud, _LEAST)))
        pcm = (np.clip(samples * gain, -1, 1) * 32767).astype("<i2")
        voiced: bool = self._detector.is_speech(pcm.tobytes(), SAMPLE_RATE)
        return voiced and power > self._loud * 10 ** (FRAME_FLOOR_DB / 10)
