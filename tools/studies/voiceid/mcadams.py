"""Anonymisation by the McAdams coefficient (Patino et al., Interspeech 2021; McAdams, 1984)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from voiceid.types import SAMPLE_RATE, Samples

ORDER = 20
HOP = SAMPLE_RATE // 100
"""Half of the 20 ms window."""
WHITENING = 1.0001
"""White noise at -40 dB, which keeps the equations well conditioned."""
SILENT = 1e-5
"""RMS of a frame that is kept as it is."""


def anonymise(samples: Samples, coefficient: float) -> Samples:
    """Raise the angles of the poles of each frame's linear prediction to the power ``coefficient``: (n,).

    Formants above 1 rad (2.5 kHz) move down for a coefficient below 1 and those below move up; 1 changes nothing.
    """
    window = np.sqrt(np.hanning(2 * HOP + 1)[:-1])
    padded = np.pad(samples.astype(np.float64), (HOP, 2 * HOP))
    output = np.zeros_like(padded)
    for start in range(0, len(padded) - 2 * HOP + 1, HOP):
        where = slice(start, start + 2 * HOP)
        output[where] += window * _frame(window * padded[where], coefficient)
    return output[HOP : HOP + len(samples)].astype(np.float32)


def _frame(frame: NDArray[np.float64], coefficient: float) -> NDArray[np.float64]:
    if np.sqrt(np.mean(frame**2)) < SILENT:
        return frame
    prediction = _prediction(frame)
    residual = lfilter(prediction, [1.0], frame)
    moved: NDArray[np.float64] = lfilter([1.0], moved_poles(prediction, coefficient), residual)
    return moved


def _prediction(frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear prediction by autocorrelation: (ORDER + 1,), the first 1; its roots lie inside the unit circle."""
    middle = len(frame) - 1
    correlation = np.correlate(frame, frame, "full")[middle : middle + ORDER + 1]
    correlation[0] *= WHITENING
    return np.concatenate(([1.0], -solve_toeplitz(correlation[:-1], correlation[1:])))


def moved_poles(prediction: NDArray[np.float64], coefficient: float) -> NDArray[np.float64]:
    """The polynomial (order + 1,) whose complex roots have their angles raised to the power ``coefficient``."""
    roots = np.roots(prediction)
    angles = np.angle(roots)
    complex_ones = np.abs(roots.imag) > 1e-9
    angles[complex_ones] = np.sign(angles[complex_ones]) * np.minimum(
        np.abs(angles[complex_ones]) ** coefficient, np.pi
    )
    return np.real(np.poly(np.abs(roots) * np.exp(1j * angles)))
