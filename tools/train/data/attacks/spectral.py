"""Cheap copy-synthesis that leaves the traces of neural vocoders and converters without running one.

Each function starts from genuine speech and spoils one thing that such systems get wrong: fine structure between mel
bands, phase, images of upsampling layers, or one frequency band only.
"""

from __future__ import annotations

import numpy as np
import soxr
from scipy.ndimage import gaussian_filter

from tools.train.data.attacks.stft import random_grid, through_mel
from voiceid.types import SAMPLE_RATE, Samples


def mel_noise(samples: Samples, random: np.random.Generator) -> Samples:
    """Mel magnitudes on a noise carrier, mixed with the original's phase below a random frequency."""
    grid = random_grid(random)
    spectrum = grid.analyse(samples)
    magnitude = through_mel(np.abs(spectrum), grid, random)
    carrier = grid.analyse(random.standard_normal(len(samples)).astype(np.float32))
    carrier /= np.abs(carrier) + 1e-9
    voiced = spectrum / (np.abs(spectrum) + 1e-9)
    edge = int(random.uniform(0, 0.6) * len(spectrum)) if random.random() < 0.7 else 0
    carrier[:edge] = voiced[:edge]
    return grid.synthesise(magnitude * carrier, len(samples))


def smoothed(samples: Samples, random: np.random.Generator) -> Samples:
    """Original phase, magnitudes smoothed over the mel scale or over time and frequency, as regression models do."""
    grid = random_grid(random)
    spectrum = grid.analyse(samples)
    magnitude = np.abs(spectrum)
    if random.random() < 0.5:
        target = through_mel(magnitude, grid, random)
    else:
        spread = (float(random.uniform(0.5, 2.5)), float(random.uniform(0.5, 2.0)))
        target = np.exp(gaussian_filter(np.log(magnitude + 1e-5), spread))
    share = random.uniform(0.6, 1.0)
    blended = np.exp(share * np.log(target + 1e-5) + (1 - share) * np.log(magnitude + 1e-5))
    phase = np.angle(spectrum) + random.uniform(0, 0.8) * random.standard_normal(spectrum.shape)
    return grid.synthesise((blended * np.exp(1j * phase)).astype(np.complex64), len(samples))


def phase_drift(samples: Samples, random: np.random.Generator) -> Samples:
    """Magnitudes kept, phase disturbed by noise that is correlated over time or grows with frequency."""
    grid = random_grid(random)
    spectrum = grid.analyse(samples)
    disturbance = gaussian_filter(random.standard_normal(spectrum.shape), (0, float(random.uniform(0, 4))))
    disturbance *= random.uniform(0.5, 1.8) / (disturbance.std() + 1e-9)
    growth = np.linspace(random.uniform(0, 1), 1, len(spectrum))[:, None]
    return grid.synthesise((spectrum * np.exp(1j * disturbance * growth)).astype(np.complex64), len(samples))


def images(samples: Samples, random: np.random.Generator) -> Samples:
    """Images and periodic gain of upsampling layers: a lower-rate copy, zero-stuffed and poorly filtered."""
    factor = int(random.choice([2, 2, 4]))
    low = soxr.resample(samples, SAMPLE_RATE, SAMPLE_RATE // factor)
    stuffed = np.zeros(len(low) * factor, np.float32)
    stuffed[::factor] = low * factor
    taps = np.ones(factor) if random.random() < 0.5 else np.bartlett(2 * factor + 1)[1:-1]
    kernel = taps / taps.sum() + 0.03 * random.standard_normal(len(taps))
    upsampled = np.convolve(stuffed, kernel, "same")[: len(samples)]
    upsampled = np.pad(upsampled, (0, len(samples) - len(upsampled)))
    share = random.uniform(0.15, 1.0)
    period = int(random.choice([2, 4, 5, 8, 16, 64]))
    pattern = 1 + random.uniform(0, 0.08) * np.resize(random.standard_normal(period), len(samples))
    return (((1 - share) * samples + share * upsampled) * pattern).astype(np.float32)


def spliced_band(genuine: Samples, artificial: Samples, random: np.random.Generator) -> Samples:
    """One band, above or below a random edge, from ``artificial``; the rest from ``genuine``. Same lengths."""
    spectrum, other = np.fft.rfft(genuine), np.fft.rfft(artificial)
    edge = random.uniform(800, 5_000) / (SAMPLE_RATE / 2) * len(spectrum)
    mask = 1 / (1 + np.exp((np.arange(len(spectrum)) - edge) / (0.005 * len(spectrum))))
    keep = mask if random.random() < 0.7 else 1 - mask
    return np.fft.irfft(keep * spectrum + (1 - keep) * other, len(genuine)).astype(np.float32)
