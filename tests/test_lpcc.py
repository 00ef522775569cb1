"""LPCC against SciPy's Toeplitz solver, a transform of the spectrum, and librosa."""

from __future__ import annotations

import librosa
import numpy as np
import pytest
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from voiceid.audio import prepare, read_waveform
from voiceid.features.lpcc import NOISE_FLOOR, autocorrelation, cepstrum_of_predictor, levinson_durbin, lpcc

POLES = np.poly([0.9 * np.exp(1j * w) for w in (0.3, -0.3, 1.1, -1.1)]).real


@pytest.fixture
def resonant() -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal(48_000)
    return (0.01 * lfilter([1.0], POLES, noise)).astype(np.float32)


def test_levinson_durbin_solves_the_yule_walker_equations(resonant) -> None:
    r = autocorrelation(resonant, 12)
    a, error = levinson_durbin(r)
    expected = solve_toeplitz(r[:-1], -r[1:])
    assert np.abs(a - expected).max() < 1e-9
    assert error == pytest.approx(r[0] + expected @ r[1:], rel=1e-9)


def test_levinson_durbin_on_real_speech(speech) -> None:
    r = autocorrelation(prepare(read_waveform(speech)).samples, 12)
    r[0] *= 1 + NOISE_FLOOR
    assert np.abs(levinson_durbin(r)[0] - solve_toeplitz(r[:-1], -r[1:])).max() < 1e-6


def test_autocorrelation_agrees_with_librosa(resonant) -> None:
    centred = resonant.astype(np.float64) - resonant.mean(dtype=np.float64)
    expected = librosa.autocorrelate(centred, max_size=13) / len(centred)
    assert np.allclose(autocorrelation(resonant, 12), expected, rtol=1e-6, atol=1e-9)


def test_cepstrum_is_the_inverse_transform_of_the_log_spectrum() -> None:
    spectrum = np.fft.rfft(POLES, 1 << 14)
    expected = np.fft.irfft(-np.log(np.abs(spectrum)) * 2)[1:13]  # minimum phase: twice the even part
    padded = np.concatenate((POLES[1:], np.zeros(8)))
    assert np.abs(cepstrum_of_predictor(padded) - expected).max() < 1e-9


def test_lpcc_finds_the_poles_of_its_source(resonant) -> None:
    expected = cepstrum_of_predictor(np.concatenate((POLES[1:], np.zeros(8))))
    assert np.abs(lpcc(resonant) - expected).max() < 0.06


def test_lpcc_ignores_level_and_offset(resonant) -> None:
    assert np.allclose(lpcc(resonant), lpcc(resonant * 0.03 + np.float32(0.01)), atol=1e-3)


@pytest.mark.parametrize("samples", [np.zeros(4800), np.full(4800, 0.3), np.zeros(0), np.ones(3)])
def test_powerless_input_gives_zeros(samples) -> None:
    assert np.array_equal(lpcc(samples.astype(np.float32)), np.zeros(12, np.float32))


@pytest.mark.parametrize("samples", [np.eye(1, 4800, 100)[0], np.sin(np.arange(4800) * 0.3), np.arange(5) % 2])
def test_extreme_input_stays_finite(samples) -> None:
    assert np.isfinite(lpcc(samples.astype(np.float32))).all()
