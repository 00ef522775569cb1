"""Other voices: pitch and formants move by their factors, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.train.data.other_voice import Move, other_voice
from voiceid.audio import prepare, read_waveform
from voiceid.types import SAMPLE_RATE, Samples


def vowel(pitch: float, formant: float, seconds: float = 1.0) -> Samples:
    """Harmonics of ``pitch`` below one resonance at ``formant`` (Hz)."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    harmonics = np.arange(pitch, 7_000, pitch)
    levels = np.exp(-(((harmonics - formant) / 300) ** 2)) + 0.01
    return (0.1 * levels @ np.sin(2 * np.pi * harmonics[:, None] * time)).astype(np.float32)


def spectrum(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    size = 8_192
    magnitude = np.abs(np.fft.rfft(samples[4_000 : 4_000 + size] * np.hanning(size)))
    return np.fft.rfftfreq(size, 1 / SAMPLE_RATE), magnitude


def formant_of(samples: Samples) -> float:
    """Centre of the power between 500 and 3500 Hz."""
    hertz, magnitude = spectrum(samples)
    band = (hertz > 500) & (hertz < 3_500)
    return float(np.average(hertz[band], weights=magnitude[band] ** 2))


def pitch_of(samples: Samples) -> float:
    """Spacing of the harmonics, by the autocorrelation of the waveform."""
    part = samples[4_000:8_000]
    lags = np.correlate(part, part, "full")[len(part) - 1 :]
    return SAMPLE_RATE / (40 + int(np.argmax(lags[40:400])))


def test_no_move_changes_nothing(speech: Path) -> None:
    samples = prepare(read_waveform(speech)).samples[:32_000]
    np.testing.assert_allclose(other_voice(samples, Move(1.0, 1.0)), samples, atol=1e-5)


@pytest.mark.parametrize("factor", [0.88, 1.12])
def test_formants_move_and_pitch_stays(factor: float) -> None:
    samples = vowel(120, 1_500)
    moved = other_voice(samples, Move(1.0, factor))
    assert len(moved) == len(samples)
    assert formant_of(moved) == pytest.approx(factor * 1_500, rel=0.04)
    assert pitch_of(moved) == pytest.approx(120, rel=0.02)


@pytest.mark.parametrize("factor", [0.85, 1.2])
def test_speed_moves_both_and_the_length(factor: float) -> None:
    samples = vowel(120, 1_500)
    moved = other_voice(samples, Move(factor, 1.0))
    assert len(moved) == pytest.approx(len(samples) / factor, abs=2)
    assert formant_of(moved) == pytest.approx(factor * 1_500, rel=0.03)
    assert pitch_of(moved) == pytest.approx(factor * 120, rel=0.02)


def test_moves_are_seeded_and_bounded() -> None:
    moves = [Move.draw(np.random.default_rng(seed)) for seed in range(200)]
    assert moves[3] == Move.draw(np.random.default_rng(3))
    assert all(0.8 < move.speed < 1.25 and 0.86 < move.formants < 1.16 for move in moves)
    assert np.std([move.speed for move in moves]) > 0.1
