"""Band dynamics: what a microphone's low cut and a loudspeaker's do to them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.signal import butter, sosfilt, spectrogram

from voiceid.features.dynamics import BANDS, EDGES, SIZE, band_dynamics

LEVEL, RANGE, RISE, SLOPE = (slice(k * BANDS, (k + 1) * BANDS) for k in range(4))


@pytest.fixture
def voice() -> np.ndarray:
    """Noise that comes and goes four times a second, as syllables do."""
    noise = np.random.default_rng(0).standard_normal(48_000)
    return 0.1 * noise * np.maximum(np.sin(2 * np.pi * 4 * np.arange(48_000) / 16_000), 0.01)


@pytest.fixture
def hiss() -> np.ndarray:
    return 0.002 * np.random.default_rng(1).standard_normal(48_000)


def low_cut(samples: np.ndarray) -> np.ndarray:
    return sosfilt(butter(6, 500, "highpass", fs=16_000, output="sos"), samples)


def test_levels_and_ranges_agree_with_scipy(voice, hiss) -> None:
    samples = (voice + hiss).astype(np.float32)
    centred = samples - samples.mean(dtype=np.float64)
    frequency, _, power = spectrogram(
        centred, 16_000, window="hamming", nperseg=512, noverlap=384, nfft=1024, detrend=False, mode="psd"
    )
    bands = [(frequency >= a) & (frequency < b) for a, b in pairwise(EDGES)]
    band_power = np.stack([power[b].mean(axis=0) for b in bands])
    level = 10 * np.log10(band_power)
    average = 10 * np.log10(band_power.mean(axis=1))
    features = band_dynamics(samples)
    assert np.abs(features[LEVEL] - (average - average.mean())).max() < 0.01
    low, middle, high = np.percentile(level, (10, 50, 90), axis=1)
    assert np.abs(features[RANGE] - (high - low)).max() < 0.01
    assert np.abs(features[RISE] - (middle - low)).max() < 0.01
    total = 10 * np.log10(band_power.sum(axis=0))
    expected = [np.polyfit(total, row, 1)[0] for row in level]
    assert np.abs(features[SLOPE] - expected).max() < 0.01


def test_a_loudspeaker_flattens_the_bands_it_lacks_and_a_microphone_does_not(voice, hiss) -> None:
    live = band_dynamics(low_cut(voice + hiss).astype(np.float32))
    replay = band_dynamics((low_cut(voice) + hiss).astype(np.float32))
    lowest, middle = slice(0, 6), slice(15, 25)
    assert live[SLOPE][lowest].mean() > 0.7
    assert replay[SLOPE][lowest].mean() < 0.2
    assert replay[RANGE][lowest].mean() < 0.7 * live[RANGE][lowest].mean()
    assert np.abs(live[SLOPE][middle] - replay[SLOPE][middle]).max() < 0.1


def test_level_and_offset_do_not_matter(voice, hiss) -> None:
    samples = (voice + hiss).astype(np.float32)
    assert np.abs(band_dynamics(samples) - band_dynamics(samples * np.float32(0.05) + np.float32(0.01))).max() < 0.05


@pytest.mark.parametrize("samples", [np.zeros(4800), np.full(4800, 0.3), np.zeros(0), np.zeros(1)])
def test_powerless_audio_gives_zeros(samples) -> None:
    assert np.array_equal(band_dynamics(samples.astype(np.float32)), np.zeros(SIZE, np.float32))


@pytest.mark.parametrize("length", [2, 511, 512, 4800])
def test_short_and_extreme_audio_is_finite(length) -> None:
    impulse = np.zeros(length, np.float32)
    impulse[length // 2] = 0.9
    assert np.isfinite(band_dynamics(impulse)).all()
