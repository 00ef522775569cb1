"""Copies by multi-band MelGAN: its normalisation is found, and a copy keeps time and level."""

from __future__ import annotations

import numpy as np
import pytest

from tools.train.data.attacks import mb_melgan
from tools.train.data.attacks.mb_melgan import Normalisation, fitted, log_mel


def test_levels_give_their_normalisation_back_and_silence_does_not_count() -> None:
    random = np.random.default_rng(2)
    mean, deviation = random.uniform(-3, -1, 80), random.uniform(0.5, 1, 80)
    normalised = random.standard_normal((400, 80)).astype(np.float32)
    levels = (mean + deviation * normalised).astype(np.float32)
    levels[:50] = -10
    found = fitted(normalised, levels)
    assert found.mean == pytest.approx(mean, abs=1e-3)
    assert found.deviation == pytest.approx(deviation, abs=1e-3)


def test_a_tone_is_loudest_in_its_band() -> None:
    tone = np.sin(2 * np.pi * 1_000 * np.arange(24_000) / 24_000).astype(np.float32)
    mel = log_mel(tone)
    assert mel.shape == (81, 80)
    assert mel[40].argmax() == log_mel(0.01 * tone)[40].argmax() == 25
    assert log_mel(0.01 * tone)[40, 25] == pytest.approx(mel[40, 25] - 2, abs=1e-3)


def test_a_copy_hears_normalised_bands_and_is_as_long_and_loud_as_what_it_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[np.ndarray] = []

    def vocoded(mel: np.ndarray) -> np.ndarray:
        asked.append(mel)
        return np.full(300 * (mel.shape[1] - 3), 0.3, np.float32)

    scale = Normalisation(np.full(80, -2, np.float32), np.full(80, 0.5, np.float32))
    monkeypatch.setattr(mb_melgan, "vocoded", vocoded)
    monkeypatch.setattr(mb_melgan, "normalisation", lambda: scale)
    samples = np.random.default_rng(0).uniform(-0.1, 0.1, 16_000).astype(np.float32)
    copy = mb_melgan.copy(samples, np.random.default_rng(0))
    assert copy.shape == samples.shape
    assert asked[0].shape == (1, 81, 80)
    levels = log_mel(mb_melgan.soxr.resample(samples, 16_000, 24_000))
    assert asked[0][0, 40] == pytest.approx((levels[40] + np.log10(6) + 2) / 0.5, abs=0.02)
    assert np.median(copy) == pytest.approx(0.05, rel=0.01)
