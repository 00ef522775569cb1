"""Speech segments by WebRTC's voice activity detector."""

from __future__ import annotations

import numpy as np
import webrtcvad

from voiceid.types import SAMPLE_RATE, Samples, Segment

FRAME = 480
"""Samples a frame: 30 ms at 16 kHz."""
MERGE_GAP = 0.15
"""Pauses up to this many seconds belong to the speech around them."""
MIN_SEGMENT = 0.09
"""Shorter bursts are clicks, not speech."""
VAD_LEVEL = 0.1
"""RMS that quiet recordings are raised to before detection, since WebRTC's detector depends on the level."""


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
    edges = np.flatnonzero(np.diff(np.concatenate(([0], voiced.astype(np.int8), [0]))))
    seconds = FRAME / SAMPLE_RATE
    merged: list[Segment] = []
    for start, end in edges.reshape(-1, 2) * seconds:
        if merged and start - merged[-1].end <= MERGE_GAP:
            merged[-1] = Segment(merged[-1].start, float(end))
        else:
            merged.append(Segment(float(start), float(end)))
    return tuple(segment for segment in merged if segment.seconds >= MIN_SEGMENT)
