"""How periodic frames of speech are, and how high a voice is by that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.train.networks.mel_encoder import HOP
from voiceid.types import SAMPLE_RATE, Samples

LAGS = range(SAMPLE_RATE // 400, SAMPLE_RATE // 70)
"""Periods of voices, in samples."""
WINDOW, SIZE = 592, 2048
QUIET = 2e-3
"""Deviation of samples below which a frame tells nothing."""
VOICED = 0.6
"""Autocorrelation at its period from which a frame tells how high a voice is."""
LEAST_FRAMES = 30
Matrix = NDArray[np.float32]


def periodicity(samples: Samples) -> tuple[Matrix, NDArray[np.bool_]]:
    """Autocorrelation of each 10 ms at the periods ``LAGS``, relative to that at none: (n // 160, lags); and loudness:
    whether there is enough to tell."""
    frames = len(samples) // HOP
    padded = np.pad(samples, (256, 512))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:frames]
    spectrum = np.fft.rfft(windows * np.hanning(WINDOW), SIZE)
    correlation = np.fft.irfft(np.square(np.abs(spectrum)))[:, : LAGS.stop]
    shape = np.fft.irfft(np.square(np.abs(np.fft.rfft(np.hanning(WINDOW), SIZE))))[: LAGS.stop]
    relative = correlation / shape / np.maximum(correlation[:, :1] / shape[0], 1e-6)
    return relative[:, LAGS.start :].astype(np.float32), windows.std(axis=1) > QUIET


def pitch(samples: Samples) -> float:
    """Median fundamental frequency of the voiced frames in Hz; nan where there are fewer than ``LEAST_FRAMES``.

    Of periods that fit nearly alike the shortest counts: its multiples fit as well.
    """
    relative, loud = periodicity(samples)
    best = relative.max(axis=1, initial=0.0)
    voiced = loud & (best >= VOICED)
    if voiced.sum() < LEAST_FRAMES:
        return float("nan")
    inner = relative[voiced]
    peaks = np.zeros(inner.shape, bool)
    peaks[:, 1:-1] = (inner[:, 1:-1] >= inner[:, :-2]) & (inner[:, 1:-1] >= inner[:, 2:])
    first = (peaks & (inner >= 0.9 * best[voiced][:, None])).argmax(axis=1)
    return float(np.median(SAMPLE_RATE / (LAGS.start + first[peaks.any(axis=1) & (first > 0)])))
