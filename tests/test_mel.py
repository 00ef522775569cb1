"""Mel features against librosa and against a frame-by-frame rendering of the published formulas."""

import librosa
import numpy as np
import pytest

from voiceid.audio import read_waveform
from voiceid.features.mel import FLOOR, deep_speaker_fbank, log_mel, mel_triangles

RNG = np.random.default_rng(5)
NOISE = (0.05 * RNG.standard_normal(16_000)).astype(np.float32)


def slow_deep_speaker_fbank(signal: np.ndarray) -> np.ndarray:
    """The original's filter bank, one frame, filter and bin at a time, in float64."""
    emphasised = np.concatenate(([signal[0]], signal[1:] - 0.97 * signal[:-1])).astype(np.float64)
    frames = 1 + int(np.ceil(max(0, len(signal) - 400) / 160))
    emphasised = np.concatenate((emphasised, np.zeros(frames * 160 + 400)))
    top = 2595 * np.log10(1 + 8000 / 700)
    edges = [int((512 + 1) * 700 * (10 ** (top * i / 65 / 2595) - 1) / 16_000) for i in range(66)]
    rows = []
    for frame in range(frames):
        power = np.abs(np.fft.fft(emphasised[frame * 160 : frame * 160 + 400], 512)[:257]) ** 2 / 512
        bands = np.zeros(64)
        for band in range(64):
            low, middle, high = edges[band : band + 3]
            bands[band] += sum(power[k] * (k - low) / (middle - low) for k in range(low, middle))
            bands[band] += sum(power[k] * (high - k) / (high - middle) for k in range(middle, high))
        bands[bands == 0] = np.finfo(float).eps
        rows.append((bands - bands.mean()) / max(bands.std(), 1e-12))
    return np.array(rows)


@pytest.mark.parametrize("bands", [40, 64])
def test_log_mel_equals_librosa(speech, bands):
    samples = read_waveform(speech).samples[:48_000]
    # librosa centres the 400-sample window in frames of 512: 56 samples later.
    padded = np.pad(samples, (56, 56))
    energies = librosa.feature.melspectrogram(
        y=padded, sr=16_000, n_fft=512, win_length=400, hop_length=160, center=False, n_mels=bands, htk=True, norm=None
    )
    expected = np.log(np.maximum(energies.T / 512, FLOOR))
    actual = log_mel(samples, bands)
    assert actual.shape == (298, bands)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, atol=2e-3)


def test_triangles_equal_librosa():
    expected = librosa.filters.mel(sr=16_000, n_fft=512, n_mels=64, htk=True, norm=None).T
    np.testing.assert_allclose(mel_triangles(64), expected, atol=1e-5)


@pytest.mark.parametrize("length", [300, 400, 401, 8_000, 16_000])
def test_deep_speaker_fbank_equals_the_formulas(length):
    np.testing.assert_allclose(deep_speaker_fbank(NOISE[:length]), slow_deep_speaker_fbank(NOISE[:length]), atol=2e-4)


def test_deep_speaker_fbank_of_real_speech(speech):
    samples = read_waveform(speech).samples[8_000:24_000]
    np.testing.assert_allclose(deep_speaker_fbank(samples), slow_deep_speaker_fbank(samples), atol=2e-3)


def test_deep_speaker_frames_are_standardised_and_counted():
    features = deep_speaker_fbank(np.tile(NOISE, 3))
    assert features.shape == (299, 64)
    np.testing.assert_allclose(features.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(features.std(axis=1), 1, atol=1e-4)


def test_silence_and_short_input_stay_finite():
    for samples in (np.zeros(16_000, np.float32), NOISE[:10]):
        assert np.isfinite(log_mel(samples)).all()
        assert np.isfinite(deep_speaker_fbank(samples)).all()
    np.testing.assert_allclose(log_mel(np.zeros(16_000, np.float32)), np.log(FLOOR), rtol=1e-6)
    assert log_mel(NOISE[:10]).shape == (1, 64)


def test_a_tone_peaks_in_its_band():
    tone = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000).astype(np.float32)
    centres = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 66)[1:-1]
    expected = int(np.argmin(np.abs(centres - 2595 * np.log10(1 + 1000 / 700))))
    assert set(log_mel(tone).argmax(axis=1)) == {expected}
