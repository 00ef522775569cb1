"""A linear-predictive vocoder with a pulse, noise or coarsened residual excitation (Atal and Hanauer, 1971)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from voiceid.types import SAMPLE_RATE, Samples

HOP = 160


def vocode(samples: Samples, random: np.random.Generator) -> Samples:
    """Analysis by autocorrelation in 20 ms frames, synthesis by overlapping all-pole filters."""
    order = int(random.integers(14, 31))
    window = np.hanning(2 * HOP + 1)[:-1]
    count = len(samples) // HOP - 1
    if count < 2:
        return samples
    kind = random.choice(["pulse", "residual"], p=[0.4, 0.6])
    noise = random.standard_normal(len(samples))
    excitation = _pulses(samples, noise) if kind == "pulse" else noise
    bits = int(random.integers(2, 5))
    output = np.zeros(len(samples))
    for frame in range(count):
        where = slice(frame * HOP, frame * HOP + 2 * HOP)
        segment = samples[where] * window
        correlation = np.correlate(segment, segment, "full")[2 * HOP - 1 : 2 * HOP + order]
        if correlation[0] < 1e-7:
            continue
        correlation[0] *= 1.0001
        prediction = np.concatenate(([1.0], -solve_toeplitz(correlation[:-1], correlation[1:])))
        residual = lfilter(prediction, [1.0], segment)
        source = _quantise(residual, bits, random) if kind == "residual" else excitation[where] * window
        gain = np.sqrt(np.square(residual).sum() / (np.square(source).sum() + 1e-12))
        output[where] += lfilter([1.0], prediction, source * gain)
    return output.astype(np.float32)


def _pulses(samples: Samples, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit-power excitation: pulses at the pitch where voiced, noise elsewhere."""
    import pyworld  # the extra [train]

    signal = samples.astype(np.float64)
    pitch, _ = pyworld.dio(signal, SAMPLE_RATE, frame_period=1000 * HOP / SAMPLE_RATE)
    per_sample = np.repeat(pitch, HOP)[: len(samples)]
    per_sample = np.pad(per_sample, (0, len(samples) - len(per_sample)))
    cycles = np.floor(np.cumsum(per_sample / SAMPLE_RATE))
    pulses = np.diff(cycles, prepend=0) > 0
    heights = np.sqrt(SAMPLE_RATE / np.maximum(per_sample, 50.0))
    return np.where(per_sample > 0, pulses * heights + 0.05 * noise, noise)


def _quantise(residual: NDArray[np.float64], bits: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Uniform quantisation with dither, as a low-rate codec does to its residual."""
    step = 6 * residual.std() / 2**bits + 1e-12
    result: NDArray[np.float64] = np.round(residual / step + random.uniform(-0.5, 0.5, residual.shape)) * step
    return result
