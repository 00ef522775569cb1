"""Voice activity frame by frame, for audio that is still coming."""

from __future__ import annotations

from collections import deque

import numpy as np
import webrtcvad

from voiceid.audio.vad import FRAME_FLOOR_DB, FRAME_SECONDS, VAD_LEVEL
from voiceid.types import SAMPLE_RATE, Samples

DECAY_DB = 3.0
"""Decibels a second by which the memory of the loudest speech fades."""
MAX_GAIN = 30.0
"""Quiet audio is raised at most this much: more would turn a microphone's own noise into speech."""
FLOOR_SECONDS = 3.0
"""The quietest frame of this time is the noise: speech has a pause in it."""
ABOVE_NOISE_DB = 6.0
"""Speech is at least this far above the noise, which WebRTC's detector takes for speech when it sets in."""
LEAST_POWER = 1e-10
"""Digital silence (-100 dBFS), which says nothing of the noise."""
_DECAY = 10 ** (-DECAY_DB * FRAME_SECONDS / 10)
_ABOVE_NOISE = 10 ** (ABOVE_NOISE_DB / 10)
_BELOW_LOUD = 10 ** (FRAME_FLOOR_DB / 10)
_LEAST_LOUD = (VAD_LEVEL / MAX_GAIN) ** 2


class StreamingVad:
    """WebRTC's detector behind a gain that follows the loudest recent frames, and a floor that follows the noise.

    It follows :func:`voiceid.audio.vad.speech_segments`, which sees whole recordings: quiet audio is raised before
    detection, and frames far below the loud ones are background.
    """

    def __init__(self, *, aggressiveness: int = 2) -> None:
        self._aggressiveness = aggressiveness
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self._detector = webrtcvad.Vad(self._aggressiveness)
        self._loud = 0.0
        self._powers: deque[float] = deque(maxlen=round(FLOOR_SECONDS / FRAME_SECONDS))

    def is_speech(self, samples: Samples) -> bool:
        """Whether the next frame, float32 (:data:`voiceid.audio.vad.FRAME`,) at 16 kHz, is speech."""
        centred = samples - samples.mean(dtype=np.float64)
        power = float(np.mean(np.square(centred)))
        self._loud = max(power, self._loud * _DECAY)
        if power > LEAST_POWER:
            self._powers.append(power)
        gain = max(1.0, VAD_LEVEL / np.sqrt(max(self._loud, _LEAST_LOUD)))
        pcm = (np.clip(centred * gain, -1, 1) * 32767).astype("<i2")
        voiced: bool = self._detector.is_speech(pcm.tobytes(), SAMPLE_RATE)
        noise = min(self._powers, default=0.0)
        return voiced and power > self._loud * _BELOW_LOUD and power > noise * _ABOVE_NOISE
