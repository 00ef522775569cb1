"""Speech segments by WebRTC's voice activity detector."""

from __future__ import annotations

import numpy as np
import webrtcvad

from voiceid.types import SAMPLE_RATE, Samples, Segment

FRAME = 480
"""Samples a frame: 30 ms at 16 kHz."""
FRAME_SECONDS = FRAME / SAMPLE_RATE
MERGE_GAP = 0.15
"""Pauses up to this many seconds belong to the speech around them."""
MIN_SEGMENT = 0.09
"""Shorter bursts are clicks, not speech."""
VAD_LEVEL = 0.1
"""RMS that quiet recordings are raised to before detection, since WebRTC's detector depends on the level."""


FRAME_FLOOR_DB, SEGMENT_FLOOR_DB = -36.0, -20.0
"""Frames and segments this far below the loud frames are background: WebRTC's detector takes noise for speech when it
sets in and after speech ends."""


def speech_segments(samples: Samples, *, aggressiveness: int = 2) -> tuple[Segment, ...]:
    """Find speech in ``samples`` (float32 (n,), 16 kHz); segments are in seconds, ordered, disjoint.

    ``aggressiveness`` is WebRTC's 0 (keeps most) to 3 (drops most).
    """
    frames = len(samples) // FRAME
    if frames == 0:
        return ()
    samples = samples - samples.mean(dtype=np.float64)
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    gain = max(1.0, VAD_LEVEL / rms) if rms > 1e-5 else 1.0
    pcm = (np.clip(samples[: frames * FRAME] * gain, -1, 1) * 32767).astype("<i2").reshape(frames, FRAME)
    detector = webrtcvad.Vad(aggressiveness)
    voiced = np.array([detector.is_speech(frame.tobytes(), SAMPLE_RATE) for frame in pcm])
    power = np.square(pcm, dtype=np.float64).mean(axis=1)
    loud = float(np.quantile(power, 0.95))
    voiced &= power > loud * 10 ** (FRAME_FLOOR_DB / 10)
    merged: list[tuple[int, int]] = []
    for start, end in np.flatnonzero(np.diff(np.concatenate(([0], voiced.astype(np.int8), [0])))).reshape(-1, 2):
        if merged and (start - merged[-1][1]) * FRAME_SECONDS <= MERGE_GAP:
            merged[-1] = (merged[-1][0], int(end))
        else:
            merged.append((int(start), int(end)))
    floor = loud * 10 ** (SEGMENT_FLOOR_DB / 10)
    return tuple(
        Segment(start * FRAME_SECONDS, end * FRAME_SECONDS)
        for start, end in merged
        if (end - start) * FRAME_SECONDS >= MIN_SEGMENT and power[start:end].mean() > floor
    )
