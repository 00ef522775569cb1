"""The level policy: one rule for every model, because spoofing scores move with gain."""

from __future__ import annotations

import numpy as np

from voiceid.types import SAMPLE_RATE, Samples, Segment

SPEECH_DBFS = -26.0
"""RMS level of the speech after the policy, in dB relative to full scale (ITU-T P.56 practice)."""
PEAK = 0.99


def speech_rms(samples: Samples, speech: tuple[Segment, ...]) -> float:
    """RMS over the speech segments (over everything where there is none)."""
    parts = [samples[int(s.start * SAMPLE_RATE) : int(s.end * SAMPLE_RATE)] for s in speech] or [samples]
    total = sum(float(np.square(part, dtype=np.float64).sum()) for part in parts)
    return float(np.sqrt(total / max(1, sum(len(part) for part in parts))))


def apply_level(samples: Samples, speech: tuple[Segment, ...]) -> Samples:
    """Remove DC and bring the speech to ``SPEECH_DBFS``; lone peaks that pass full scale are clipped at ``PEAK``."""
    centred = samples - samples.mean(dtype=np.float64)
    rms = speech_rms(centred, speech)
    if rms < 1e-7:
        return np.asarray(centred, dtype=np.float32)
    levelled = centred * (10 ** (SPEECH_DBFS / 20) / rms)
    result: Samples = np.clip(levelled, -PEAK, PEAK).astype(np.float32)
    return result
