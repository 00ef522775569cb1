"""Mel filter banks: the log-mel spectrogram, and the filter bank of the original deep speaker.

Frames are 25 ms every 10 ms, spectra have 512 points, and the mel scale is HTK's, 2595 log10(1 + f / 700).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from voiceid.types import SAMPLE_RATE, Samples

FRAME = 400
"""Samples a frame: 25 ms."""
HOP = 160
"""Samples between frames: 10 ms."""
NFFT = 512
FLOOR = 1e-6
"""Least band energy before the logarithm: 60 dB below a band that holds all of -26 dBFS speech."""
PRE_EMPHASIS = 0.97

Features = NDArray[np.float32]


def log_mel(samples: Samples, bands: int = 64) -> Features:
    """Natural logarithm of mel energies: float32 (n,) at 16 kHz to (T, bands), T = 1 + (n - 400) // 160.

    Hann window (periodic); triangles of height one on exact frequencies from 0 to 8 kHz; no padding, except that less
    than one frame is zero-padded to one.
    """
    missing = FRAME - len(samples)
    padded = np.pad(samples, (0, missing)) if missing > 0 else samples
    energies = power_spectrum(_frames(padded) * _hann()) @ mel_triangles(bands)
    result: Features = np.log(np.maximum(energies, np.float32(FLOOR)))
    return result


def deep_speaker_fbank(samples: Samples) -> Features:
    """Filter bank of philipperemy/deep-speaker: float32 (n,) at 16 kHz to (T, 64), T = 1 + ceil((n - 400) / 160).

    Pre-emphasis 0.97, rectangular window, 64 triangles on whole FFT bins from 0 to 8 kHz, linear energies, each frame
    standardised over its bands. The last frame is zero-padded. Not included: the original's crop to the samples that
    pass the 95th percentile of magnitude, whose place the level and trimming policy of :mod:`voiceid.audio` takes.
    """
    emphasised = np.append(samples[:1], samples[1:] - np.float32(PRE_EMPHASIS) * samples[:-1])
    count = 1 + max(0, -(-(len(samples) - FRAME) // HOP))
    padded = np.pad(emphasised, (0, max(0, (count - 1) * HOP + FRAME - len(emphasised))))
    energies = power_spectrum(_frames(padded)) @ _whole_bin_triangles()
    energies = np.where(energies == 0, np.finfo(np.float64).eps, energies)
    deviation = np.maximum(energies.std(axis=1, keepdims=True), 1e-12)
    result: Features = ((energies - energies.mean(axis=1, keepdims=True)) / deviation).astype(np.float32)
    return result


def power_spectrum(frames: Features) -> Features:
    """Periodogram ``|X|^2 / 512``: (T, up to 512) to float32 (T, 257)."""
    spectrum = np.fft.rfft(frames, NFFT)
    power: Features = (np.square(spectrum.real) + np.square(spectrum.imag)).astype(np.float32) / np.float32(NFFT)
    return power


@cache
def mel_triangles(bands: int) -> Features:
    """(257, bands) triangular weights of height one, equally spaced in mel from 0 to 8 kHz."""
    corners = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE / 2), bands + 2))
    bins = np.fft.rfftfreq(NFFT, 1 / SAMPLE_RATE)[:, None]
    rising = (bins - corners[:-2]) / np.diff(corners[:-1])
    falling = (corners[2:] - bins) / np.diff(corners[1:])
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


@cache
def _whole_bin_triangles() -> Features:
    """(257, 64) triangles whose corners are rounded down to FFT bins, as python_speech_features makes them."""
    corners = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE / 2), 64 + 2))
    low, centre, high = (
        corner[None, :]
        for corner in np.lib.stride_tricks.sliding_window_view(np.floor((NFFT + 1) * corners / SAMPLE_RATE), 64)
    )
    bins = np.arange(NFFT // 2 + 1)[:, None]
    rising = (bins - low) / np.maximum(centre - low, 1)
    falling = (high - bins) / np.maximum(high - centre, 1)
    weights = np.where(bins < centre, rising, falling)
    return np.where((bins >= low) & (bins < high), weights, 0).astype(np.float32)


@cache
def _hann() -> Features:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)).astype(np.float32)


def _frames(samples: Samples) -> Features:
    frames: Features = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
    return frames


def _hz_to_mel(hz: float) -> float:
    return float(2595 * np.log10(1 + hz / 700))


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return 700 * (10 ** (mel / 2595) - 1)
