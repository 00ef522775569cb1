"""Replay simulation: families by split, the loudspeaker's physics, the same scenes for both classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tools.train.data import augment
from tools.train.data.corpus import read_index
from tools.train.data.replay import (
    LOUDSPEAKERS,
    MICROPHONES,
    ROOMS,
    Bank,
    capture,
    load_bank,
    microphone_taps,
    random_loudspeaker,
    simulate_live,
    simulate_replay,
)

BANK = Bank("train", noises=(), rooms=(), cabinets=())


@pytest.fixture
def voice() -> np.ndarray:
    noise = augment.coloured_noise(32_000, 1.0, np.random.default_rng(0))
    return (0.05 * noise * np.maximum(np.sin(2 * np.pi * 3 * np.arange(32_000) / 16_000), 0.02)).astype(np.float32)


def band(samples: np.ndarray, low: float, high: float) -> float:
    power = np.abs(np.fft.rfft(samples)) ** 2
    frequency = np.fft.rfftfreq(len(samples), 1 / 16_000)
    return float(power[(frequency >= low) & (frequency < high)].sum() / power.sum())


@pytest.mark.parametrize("families", [LOUDSPEAKERS, ROOMS, MICROPHONES])
def test_every_split_has_families_of_its_own(families) -> None:
    by_split = {split: {f.name for f in families if f.split == split} for split in ("train", "dev", "test")}
    assert all(by_split.values())
    assert len({f.name for f in families if f.split in ("train", "dev")} & by_split["test"]) <= 2
    assert len({(f.name, f.split) for f in families}) == len(families)


def test_a_phone_loses_the_bass_and_a_monitor_keeps_it(voice) -> None:
    rng = np.random.default_rng(1)
    share: dict[str, list[float]] = {}
    for _ in range(60):
        loudspeaker = random_loudspeaker("train", rng)
        share.setdefault(loudspeaker.family, []).append(band(loudspeaker.play(voice), 20, 150) / band(voice, 20, 150))
    assert np.median(share["phone"]) < 0.05
    assert np.median(share["monitor"]) > 0.5


@pytest.mark.parametrize("kind", ["clip", "polynomial", "excursion"])
def test_every_nonlinearity_distorts_more_when_driven_harder(kind) -> None:
    time = np.arange(32_000) / 16_000
    tones = (0.05 * np.sin(2 * np.pi * 400 * time) + 0.05 * np.sin(2 * np.pi * 1300 * time)).astype(np.float32)
    base = replace(
        random_loudspeaker("train", np.random.default_rng(0)),
        nonlinearity=kind, taps=np.array([1.0]), limiter=1.0, asymmetry=0.3, excursion_hz=500.0,
    )  # fmt: skip

    def distortion(drive_db: float) -> float:
        out = replace(base, drive=10 ** (drive_db / 20)).play(tones)[8000:24_000]
        return 1 - band(out, 390, 410) - band(out, 1290, 1310)

    assert distortion(-40) < 1e-3 < distortion(-10) < 0.5


def test_playing_keeps_length_and_level(voice) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        played = random_loudspeaker("test", rng).play(voice)
        assert played.shape == voice.shape and played.dtype == np.float32
        assert augment.active_rms(played) == pytest.approx(augment.active_rms(voice), rel=0.01)


def test_silence_can_be_played() -> None:
    silence = np.zeros(16_000, np.float32)
    assert np.isfinite(simulate_replay(silence, BANK, np.random.default_rng(0)).samples).all()


def test_scenes_of_live_speech_and_replay_are_drawn_alike(voice) -> None:
    live = [simulate_live(voice, BANK, np.random.default_rng([0, i])).scene.split("/") for i in range(60)]
    replayed = [simulate_replay(voice, BANK, np.random.default_rng([1, i])).scene.split("/") for i in range(60)]
    assert {s[0] for s in live} == {"-"} and "-" not in {s[0] for s in replayed}
    for part in (1, 2, 3):
        without = [np.mean([s[part] == "-" for s in scenes]) for scenes in (live, replayed)]
        assert abs(without[0] - without[1]) < 0.25
        assert {s[part] for s in live} == {s[part] for s in replayed}


def test_microphones_pass_the_voice_band() -> None:
    for family in MICROPHONES:
        response = np.abs(np.fft.rfft(microphone_taps(family, np.random.default_rng(3)), 16_000))
        gains = 20 * np.log10(response[300:4000])
        assert gains.min() > -15 and gains.max() < 15


def test_same_seed_same_recording(voice) -> None:
    first, again = (capture(voice, BANK, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(first.samples, again.samples) and first.scene == again.scene


def test_banks_of_the_corpus_are_disjoint_and_licensed(corpus) -> None:
    items = read_index(corpus / "index.csv")
    banks = {split: load_bank(items, split) for split in ("train", "dev", "test")}
    assert all(bank.noises and bank.rooms for bank in banks.values())
    seen = [noise.tobytes() for bank in banks.values() for noise in (*bank.noises, *bank.rooms, *bank.cabinets)]
    assert len(seen) == len(set(seen))
    assert sum(i.set == "noise-esc10" for i in items) and len(banks["test"].noises) < 20
