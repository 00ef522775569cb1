"""VOID-97: the spectral shape features of loudspeaker replay, at 16 kHz.

After Ahmed et al., "Void: A fast and light voice liveness detection system", USENIX Security 2020. The paper works at
44.1 kHz; here every frequency is kept near its own and the ratios of window, hop and transform are kept exactly.

Power spectrum
    Mean removed; periodic Hamming window of 512 samples, hop 128, transform 2048 (7.8 Hz a bin); power summed over
    all frames; sums over segments of 14 bins: 73 segments of 109.4 Hz (paper: 107.7 Hz), bins 0 to 1021.
Columns
    0-1    LDF   linearity of the cumulated power ``cdf`` over the 73 segments (last value 1): Pearson correlation of
                 cdf with the segment number; leading coefficient of the quadratic with x = cdf, y = segment centre
                 in kHz.
    2-36   HPF   on the LFP curve: number, mean and standard deviation (population, in segments) of its peaks, that
                 is, values greater than both neighbours (at the ends: the one) and at least 0.6 of the maximum; then
                 a polynomial of order 6 fitted to the 48 values, evaluated at 32 equally spaced points from the first
                 to the last.
    37-48  LPCC  c1..c12 of the whole signal (:mod:`voiceid.features.lpcc`).
    49-96  LFP   the first 48 segments (to 5.25 kHz) divided by the greatest of them.

All are independent of level and of DC. Audio without power counts as a flat spectrum, audio shorter than one window is
padded with zeros: the features are always finite.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from voiceid.features.lpcc import lpcc
from voiceid.types import SAMPLE_RATE, Samples

Floats = NDArray[np.float64]

WINDOW, HOP, TRANSFORM = 512, 128, 2048
SEGMENT_BINS = 14
SEGMENTS = (TRANSFORM // 2 + 1) // SEGMENT_BINS
LOW_SEGMENTS = 48
PEAK_SHARE = 0.6
FIT_ORDER, FIT_POINTS = 6, 32
SIZE = 97
BLOCKS = {"ldf": slice(0, 2), "hpf": slice(2, 37), "lpcc": slice(37, 49), "lfp": slice(49, 97)}
"""Columns of the four groups."""


def void_features(samples: Samples, frames: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """The 97 features of ``samples`` (float32 (n,), 16 kHz): float32 (97,).

    ``frames`` is what :func:`frame_power` gives for them, where the caller has it already.
    """
    power = segment_power(power_spectrum(frame_power(samples) if frames is None else frames))
    low = power[:LOW_SEGMENTS]
    lfp = low / low.max() if low.max() > 0 else np.ones(LOW_SEGMENTS)
    return np.concatenate([_ldf(power), _hpf(lfp), lpcc(samples), lfp]).astype(np.float32)


def segment_power(spectrum: Floats) -> Floats:
    """Power in the 73 segments of ``spectrum`` (1025,): float64 (73,); all ones where there is no power."""
    power = spectrum[: SEGMENTS * SEGMENT_BINS].reshape(SEGMENTS, SEGMENT_BINS).sum(axis=1)
    return power if power.any() else np.ones(SEGMENTS)


def power_spectrum(frames: NDArray[np.float32]) -> Floats:
    """Squared magnitude at transform length 2048, summed over ``frames`` (t, 513): float64 (1025,).

    Length 1024 is long enough for the autocorrelation of a window of 512, so the sum is transformed back, padded, and
    transformed once to length 2048: the same as padding every frame with zeros, at half the cost.
    """
    correlation = np.fft.irfft(frames.sum(axis=0, dtype=np.float64), 2 * WINDOW)
    spread = np.zeros(TRANSFORM)
    spread[:WINDOW] = correlation[:WINDOW]
    spread[-WINDOW + 1 :] = correlation[-WINDOW + 1 :]
    return np.maximum(np.fft.rfft(spread).real, 0.0)


def frame_power(samples: Samples) -> NDArray[np.float32]:
    """Squared magnitude of every frame at transform length 1024: float32 (frames, 513), bins of 15.6 Hz.

    At least one frame; zeros where the whole signal lies below -160 dBFS without its mean.
    """
    centred = samples - samples.mean(dtype=np.float64) if samples.size else np.zeros(WINDOW)
    if float(np.mean(np.square(centred))) <= 1e-16:
        return np.zeros((1, WINDOW + 1), dtype=np.float32)
    padded = np.pad(centred.astype(np.float32), (0, max(0, WINDOW - centred.size)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * _window()
    spectrum = np.fft.rfft(frames, 2 * WINDOW, axis=1)
    power: NDArray[np.float32] = np.square(spectrum.real) + np.square(spectrum.imag)
    return power


def _ldf(power: Floats) -> Floats:
    cdf = np.cumsum(power) / power.sum()
    centres = (np.arange(SEGMENTS) + 0.5) * SEGMENT_BINS * SAMPLE_RATE / TRANSFORM / 1000
    return np.array([pearson(cdf, np.arange(SEGMENTS, dtype=np.float64)), quadratic_coefficient(cdf, centres)])


def _hpf(lfp: Floats) -> Floats:
    before, after = np.append(-np.inf, lfp[:-1]), np.append(lfp[1:], -np.inf)
    peaks = np.flatnonzero((lfp > before) & (lfp > after) & (lfp >= PEAK_SHARE * lfp.max()))
    moments = (peaks.size, peaks.mean(), peaks.std()) if peaks.size else (0.0, 0.0, 0.0)
    return np.concatenate([moments, _fit_matrix() @ lfp])


def pearson(x: Floats, y: Floats) -> float:
    """Correlation of ``x`` and ``y`` (n,); 0 where either is constant."""
    dx, dy = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((dx @ dx) * (dy @ dy)))
    return float(dx @ dy) / norm if norm > 1e-12 else 0.0


def quadratic_coefficient(x: Floats, y: Floats) -> float:
    """Least-squares a of y = a x^2 + b x + c; 0 where ``x`` has fewer than three distinct values in effect."""
    dx = x - x.mean()
    scale = float(np.sqrt(np.mean(dx**2)))
    if scale < 1e-6:
        return 0.0
    z = dx / scale
    square = z**2 - 1.0
    square -= (square @ z) / (z @ z) * z
    power = float(square @ square)
    return float(square @ y) / power / scale**2 if power > 1e-9 * z.size else 0.0


@cache
def _window() -> NDArray[np.float32]:
    """Periodic Hamming."""
    return (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@cache
def _fit_matrix() -> Floats:
    """(32, 48): fits the polynomial to the 48 values and evaluates it at the 32 points, by an orthogonal basis."""
    legendre = np.polynomial.legendre.legvander
    basis = legendre(np.linspace(-1, 1, LOW_SEGMENTS), FIT_ORDER)
    points = legendre(np.linspace(-1, 1, FIT_POINTS), FIT_ORDER)
    matrix: Floats = points @ np.linalg.pinv(basis)
    return matrix
