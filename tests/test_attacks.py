"""Attack systems and channels: they keep length and content, and change what they say they change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.train.data import channel
from tools.train.data.attacks import phase_vocoder, spectral
from tools.train.data.attacks.stft import Grid
from tools.train.data.attacks.systems import DEV_SYSTEMS, TRAIN_SYSTEMS
from voiceid.audio import prepare, read_waveform
from voiceid.features.mel import log_mel
from voiceid.types import Samples

NEED_PYWORLD = ("world-copy", "world-shift", "lpc")
TRAINED = ("neural", "vocoder", "melgan", "mb-melgan", "hifigan")
"""Systems that are networks, to be trained or fetched first."""
PITCH_CHANGING = ("world-shift", "phase-vocoder-shift")


@pytest.fixture(scope="module")
def utterance(speech: Path) -> Samples:
    return prepare(read_waveform(speech)).samples[:24_000]


def correlation(a: Samples, b: Samples) -> float:
    return float(np.corrcoef(log_mel(a).ravel(), log_mel(b).ravel())[0, 1])


@pytest.mark.parametrize("name", [n for n in (*TRAIN_SYSTEMS, *DEV_SYSTEMS) if not n.startswith(TRAINED)])
def test_copies_keep_length_and_content_but_not_the_waveform(utterance: Samples, name: str) -> None:
    if name in NEED_PYWORLD:
        pytest.importorskip("pyworld", reason="the extra voiceid[train] is not installed")
    copy = {**TRAIN_SYSTEMS, **DEV_SYSTEMS}[name](utterance, np.random.default_rng(1))
    assert copy.shape == utterance.shape
    assert copy.dtype == np.float32
    assert np.isfinite(copy).all()
    assert correlation(utterance, copy) > (0.5 if name in PITCH_CHANGING else 0.75)
    assert np.abs(copy - utterance).max() > 0.01


def test_no_system_is_in_both_splits() -> None:
    assert not set(TRAIN_SYSTEMS) & set(DEV_SYSTEMS)


def test_grid_reconstructs_what_it_analysed(utterance: Samples) -> None:
    grid = Grid(512, 128)
    np.testing.assert_allclose(grid.synthesise(grid.analyse(utterance), len(utterance)), utterance, atol=1e-5)


def test_phase_vocoder_moves_pitch_by_its_factor() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(32_000) / 16_000).astype(np.float32)
    shifted = phase_vocoder.shift(tone, np.random.default_rng(0))
    peak = np.abs(np.fft.rfft(shifted[8_000:24_000] * np.hanning(16_000))).argmax()
    random = np.random.default_rng(0)
    factor = 2 ** (random.choice([-1, 1]) * random.uniform(1, 5) / 12)
    assert peak == pytest.approx(440 * factor, rel=0.02)


def test_spliced_band_joins_two_signals_at_one_edge() -> None:
    random = np.random.default_rng(4)
    genuine, artificial = (random.standard_normal(16_000).astype(np.float32) for _ in range(2))
    spectrum = np.fft.rfft(spectral.spliced_band(genuine, artificial, random))
    from_genuine = np.isclose(spectrum, np.fft.rfft(genuine), rtol=1e-2, atol=0.5)
    ends = from_genuine[:300].mean(), from_genuine[-300:].mean()
    assert sorted(round(end) for end in ends) == [0, 1]


@pytest.mark.parametrize("codec", [channel.OPUS_20K, *channel.OTHER_CODECS], ids=lambda c: c.subtype)
def test_codecs_keep_length_and_content(utterance: Samples, codec: channel.Codec) -> None:
    decoded = channel.through_codec(utterance, codec, np.random.default_rng(0))
    assert decoded.shape == utterance.shape
    assert correlation(utterance, decoded) > 0.85


def test_mixing_reaches_the_wanted_ratio(utterance: Samples) -> None:
    noise = np.random.default_rng(0).standard_normal(len(utterance))
    added = channel.mixed(utterance, noise, 12.0) - utterance
    assert 10 * np.log10(np.mean(utterance**2) / np.mean(added**2)) == pytest.approx(12.0, abs=0.01)


def test_gate_quietens_pauses_only(utterance: Samples) -> None:
    gated = channel.gated(utterance, np.random.default_rng(0))
    level = np.abs(utterance)
    loud, quiet = level > np.quantile(level, 0.99), level < np.quantile(level, 0.3)
    np.testing.assert_allclose(gated[loud], utterance[loud], atol=1e-6)
    assert np.square(gated[quiet]).sum() < 0.9 * np.square(utterance[quiet]).sum()


def test_channels_are_seeded_and_keep_the_length(utterance: Samples) -> None:
    for seed in range(4):
        first, second = (channel.channel(utterance, np.random.default_rng(seed)) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        assert first.shape == utterance.shape


def test_opus_20k_is_about_20_kbit_per_second(utterance: Samples, tmp_path: Path) -> None:
    path = tmp_path / "x.ogg"
    level = channel.OPUS_20K.levels[0]
    soundfile.write(path, np.tile(utterance, 4), 16_000, format="OGG", subtype="OPUS", compression_level=level)
    assert 15 < path.stat().st_size * 8 / (4 * len(utterance) / 16_000) / 1000 < 27
