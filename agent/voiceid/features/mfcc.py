"""Mel-frequency cepstral coefficients (Davis and Mermelstein, 1980)."""

from __future__ import annotations

from functools import cache

import numpy as np

from voiceid.features.mel import Features, log_mel
from voiceid.types import Samples


def mfcc(samples: Samples, coefficients: int = 20, bands: int = 40) -> Features:
    """Orthonormal DCT-II of the log-mel spectrum: float32 (n,) at 16 kHz to (T, coefficients), from c0 on.

    Raises:
        ValueError: more coefficients than bands.
    """
    if not 1 <= coefficients <= bands:
        raise ValueError(f"coefficients is {coefficients}; use 1 to {bands}, the number of mel bands")
    result: Features = log_mel(samples, bands) @ _dct(bands)[:, :coefficients]
    return result


@cache
def _dct(size: int) -> Features:
    """(size, size) matrix whose columns are the orthonormal DCT-II basis."""
    n = np.arange(size)
    basis = np.cos(np.pi / size * (n[:, None] + 0.5) * n[None, :]) * np.sqrt(2 / size)
    basis[:, 0] /= np.sqrt(2)
    result: Features = basis.astype(np.float32)
    return result
