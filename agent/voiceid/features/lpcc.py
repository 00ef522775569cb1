"""Linear prediction cepstral coefficients: autocorrelation, Levinson-Durbin, cepstral recursion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceid.types import Samples

Floats = NDArray[np.float64]

ORDER = 12
NOISE_FLOOR = 1e-6
"""White noise added to the autocorrelation, relative to its power: keeps band-limited audio well conditioned."""


def lpcc(samples: Samples, order: int = ORDER) -> NDArray[np.float32]:
    """Cepstral coefficients c1..c_order of the all-pole model of all of ``samples``.

    ``samples`` float32 (n,) give float32 (order,), independent of their level. Silence, constant and empty input
    (no power after removal of the mean) give zeros.
    """
    r = autocorrelation(samples, order)
    if r[0] <= 0:
        return np.zeros(order, dtype=np.float32)
    r[0] *= 1 + NOISE_FLOOR
    prediction, _ = levinson_durbin(r)
    return cepstrum_of_predictor(prediction).astype(np.float32)


def autocorrelation(samples: Samples, order: int) -> Floats:
    """Biased autocorrelation at lags 0..order after removal of the mean, divided by n: float64 (order + 1,).

    Power below -160 dBFS counts as none, so that rounding of a constant is not taken for sound.
    """
    centred = samples.astype(np.float64)
    if centred.size:
        centred -= centred.mean()
    n = centred.size
    r = np.zeros(order + 1)
    for lag in range(min(order + 1, n)):
        r[lag] = np.einsum("i,i->", centred[: n - lag], centred[lag:]) / n  # not a BLAS product: that starts threads
    return r if r[0] > 1e-16 else np.zeros(order + 1)


def levinson_durbin(r: Floats) -> tuple[Floats, float]:
    """Solve the Yule-Walker equations for ``r`` (order + 1,), r[0] > 0.

    Returns a (order,) of the inverse filter A(z) = 1 + sum a_i z^-i and the power of the prediction error (Makhoul,
    Linear Prediction: A Tutorial Review, 1975, equations 38).
    """
    order = len(r) - 1
    a = np.zeros(order)
    error = float(r[0])
    for i in range(order):
        reflection = -(r[i + 1] + a[:i] @ r[i:0:-1]) / error
        a[:i] = a[:i] + reflection * a[:i][::-1]
        a[i] = reflection
        error *= 1 - reflection * reflection
        if error <= 0:
            break
    return a, error


def cepstrum_of_predictor(a: Floats) -> Floats:
    """Cepstrum c_1..c_p of 1 / A(z): c_n = -a_n - sum_{j=1}^{n-1} (j / n) c_j a_{n-j}; (p,) to (p,)."""
    c = np.zeros_like(a)
    for n in range(1, len(a) + 1):
        j = np.arange(1, n)
        c[n - 1] = -a[n - 1] - (j / n * c[: n - 1]) @ a[: n - 1][::-1]
    return c
