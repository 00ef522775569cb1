"""MFCC against scipy's DCT and librosa."""

import librosa
import numpy as np
import pytest
import scipy.fft

from voiceid.audio import read_waveform
from voiceid.features.mel import log_mel
from voiceid.features.mfcc import mfcc


def test_equals_scipy_and_librosa(speech):
    samples = read_waveform(speech).samples[:32_000]
    logarithms = log_mel(samples, 40)
    actual = mfcc(samples, 20, 40)
    assert actual.shape == (198, 20)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, scipy.fft.dct(logarithms, norm="ortho")[:, :20], atol=1e-4)
    np.testing.assert_allclose(actual, librosa.feature.mfcc(S=logarithms.T, n_mfcc=20).T, atol=1e-4)


def test_all_coefficients_keep_the_energy():
    samples = np.random.default_rng(1).standard_normal(8_000).astype(np.float32) * 0.1
    np.testing.assert_allclose(
        np.square(mfcc(samples, 40, 40)).sum(axis=1), np.square(log_mel(samples, 40)).sum(axis=1), rtol=1e-4
    )


@pytest.mark.parametrize("count", [0, 41])
def test_impossible_number_of_coefficients(count):
    with pytest.raises(ValueError, match=f"coefficients is {count}; use 1 to 40"):
        mfcc(np.zeros(8_000, np.float32), count, 40)
