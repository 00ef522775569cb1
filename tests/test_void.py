"""VOID-97 against scipy.signal.stft, np.polyfit, np.corrcoef and scipy.signal.find_peaks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import find_peaks, get_window, stft

from voiceid.audio import prepare, read_waveform
from voiceid.features import void
from voiceid.features.lpcc import lpcc


@pytest.fixture
def samples() -> np.ndarray:
    rng = np.random.default_rng(3)
    return (0.05 * np.cumsum(rng.standard_normal(16_000)) * np.hanning(16_000) / 20).astype(np.float32)


def reference_power(samples: np.ndarray) -> np.ndarray:
    window = get_window("hamming", 512, fftbins=True)
    centred = samples.astype(np.float64) - samples.mean(dtype=np.float64)
    starts = range(0, len(samples) - 511, 128)
    return sum(np.abs(np.fft.rfft(centred[s : s + 512] * window, 2048)) ** 2 for s in starts)


def test_power_spectrum_is_that_of_zero_padded_frames(samples) -> None:
    expected = reference_power(samples)
    assert np.abs(void.power_spectrum(void.frame_power(samples)) - expected).max() < 1e-5 * expected.max()


def test_power_spectrum_agrees_with_scipy_stft(samples) -> None:
    centred = samples.astype(np.float64) - samples.mean(dtype=np.float64)
    window = get_window("hamming", 512, fftbins=True)
    _, _, z = stft(centred, window=window, nperseg=512, noverlap=384, nfft=2048, boundary=None, padded=False)
    expected = (np.abs(z * window.sum()) ** 2).sum(axis=1)
    assert np.allclose(void.power_spectrum(void.frame_power(samples)), expected, atol=1e-5 * expected.max())


def test_groups_on_real_speech_agree_with_numpy_and_scipy(speech) -> None:
    samples = prepare(read_waveform(speech)).samples
    features = void.void_features(samples)
    power = reference_power(samples)[:1022].reshape(73, 14).sum(axis=1)
    cdf = np.cumsum(power) / power.sum()
    centres = (np.arange(73) * 14 + 7) * 16_000 / 2048 / 1000
    assert features[0] == pytest.approx(np.corrcoef(cdf, np.arange(73))[0, 1], abs=1e-5)
    assert features[1] == pytest.approx(np.polyfit(cdf, centres, 2)[0], rel=1e-4)
    lfp = power[:48] / power[:48].max()
    assert np.abs(features[void.BLOCKS["lfp"]] - lfp).max() < 1e-5
    peaks, _ = find_peaks(np.pad(lfp, 1), height=0.6)
    peaks -= 1
    assert features[2:5] == pytest.approx([len(peaks), peaks.mean(), peaks.std()], abs=1e-5)
    fitted = np.polyval(np.polyfit(np.linspace(-1, 1, 48), lfp, 6), np.linspace(-1, 1, 32))
    assert np.abs(features[5:37] - fitted).max() < 1e-5
    assert np.array_equal(features[void.BLOCKS["lpcc"]], lpcc(samples))


def test_features_ignore_level_and_offset(samples) -> None:
    moved = void.void_features((samples * 0.1 + 0.02).astype(np.float32))
    assert np.allclose(void.void_features(samples), moved, rtol=1e-3, atol=1e-3)


def test_cutting_the_low_end_shows_in_the_first_segments() -> None:
    noise = np.random.default_rng(2).standard_normal(16_000)
    spectrum = np.fft.rfft(noise)
    spectrum[:300] *= 0.05
    whole, cut = (void.void_features(x.astype(np.float32)) for x in (noise, np.fft.irfft(spectrum)))
    start = void.BLOCKS["lfp"].start
    assert whole[start : start + 2].min() > 0.3 and cut[start : start + 2].max() < 0.05
    assert cut[0] < whole[0]


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.02, 0.3, 1.0])
def test_any_length_gives_97_finite_values(seconds) -> None:
    noise = np.random.default_rng(0).standard_normal(int(seconds * 16_000)).astype(np.float32) * 0.1
    features = void.void_features(noise)
    assert features.shape == (97,) and features.dtype == np.float32 and np.isfinite(features).all()


@pytest.mark.parametrize("value", [0.0, 0.3, -1.0])
def test_powerless_input_counts_as_a_flat_spectrum(value) -> None:
    features = void.void_features(np.full(4800, value, np.float32))
    assert features[0] == pytest.approx(1.0)
    assert np.array_equal(features[void.BLOCKS["lfp"]], np.ones(48))
    assert np.isfinite(features).all() and features[2] == 0


def test_a_pure_tone_is_finite_and_has_one_peak() -> None:
    tone = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
    features = void.void_features(tone.astype(np.float32))
    assert np.isfinite(features).all()
    assert features[2:4] == pytest.approx([1, 1000 // 109.375])


def test_pearson_and_quadratic_on_random_and_degenerate_data() -> None:
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.random(73)), rng.random(73)
    assert void.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert void.quadratic_coefficient(x, y) == pytest.approx(np.polyfit(x, y, 2)[0])
    assert void.pearson(np.ones(73), y) == 0.0
    assert void.quadratic_coefficient(np.ones(73), y) == 0.0
    assert void.quadratic_coefficient(np.repeat([0.0, 1.0], 36), y[:72]) == 0.0
