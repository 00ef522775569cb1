"""Band dynamics: how the voice rises above the noise in every band, a replay cue beside VOID.

A microphone's low cut takes voice and room noise alike; a loudspeaker's takes the voice alone. So where a loudspeaker
does not reach, the band's level follows the room and no longer the voice: its range shrinks, and its slope on the level
of the whole goes to zero. VOID, which sums over time, cannot see that.

Per frame (window 512, hop 128, as in :mod:`voiceid.features.void`) the level in dB of 32 bands: eight of 30 Hz from 60
to 300 Hz, then 24 of equal ratio to 7.8 kHz; levels under -70 dB of the mean band power are raised to it. Columns:

    0-31     level of the mean power, minus its mean over the bands
    32-63    range: 90th minus 10th percentile over frames
    64-95    rise: 50th minus 10th percentile
    96-127   slope of the regression on the level of the sum of the bands

Independent of level; zeros for audio without power. This project's own.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from voiceid.features.void import WINDOW, frame_power
from voiceid.types import SAMPLE_RATE, Samples

EDGES = np.concatenate((np.arange(60.0, 300.0, 30.0), np.geomspace(300.0, 7800.0, 25)))
BANDS = len(EDGES) - 1
SIZE = 4 * BANDS
FLOOR = 1e-7
"""-70 dB."""


def band_dynamics(samples: Samples, frames: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """The 128 features of ``samples`` (float32 (n,), 16 kHz): float32 (128,).

    ``frames`` is what :func:`voiceid.features.void.frame_power` gives for them, where the caller has it already.
    """
    starts, widths = _bands()
    power = np.add.reduceat(frame_power(samples) if frames is None else frames, starts, axis=1)[:, :BANDS] / widths
    mean = power.mean(axis=0, dtype=np.float64)
    if not mean.any():
        return np.zeros(SIZE, dtype=np.float32)
    floor = FLOOR * mean.mean()
    level = 10 * np.log10(np.maximum(power, floor))
    average = 10 * np.log10(np.maximum(mean, floor))
    low, middle, high = np.percentile(level, (10, 50, 90), axis=0)
    total = 10 * np.log10(np.maximum(power.sum(axis=1), floor))
    total -= total.mean()
    variation = float(total @ total)
    slope = np.einsum("t,tb->b", total, level) / variation if variation > 1e-6 else np.zeros(BANDS)
    features: NDArray[np.float32] = np.concatenate(
        (average - average.mean(), high - low, middle - low, slope), dtype=np.float32, casting="same_kind"
    )
    return features


@cache
def _bands() -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """First bins of the bands with the end of the last one (33,), and the bands' widths in bins (32,)."""
    starts = np.ceil(EDGES * 2 * WINDOW / SAMPLE_RATE).astype(np.intp)
    return starts, np.diff(starts).astype(np.float32)
