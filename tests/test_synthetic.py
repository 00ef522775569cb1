"""Synthetic speech as attacks: which split hears which system, how it is drawn, and what happens without it."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.train.data import synthetic
from tools.train.data.attacks import debian, engines
from tools.train.data.attacks.babble import CZECH, LATIN, babble
from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.engine import SilentError, Speech, Voice, spoken_by
from tools.train.spoofing import SYSTEM_SHARES, share_group
from voiceid.types import SAMPLE_RATE


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))


def lay(system: str, *names: str) -> None:
    for name in names:
        soundfile.write(attack_folder(system) / f"{name}.flac", np.zeros(800, np.float32), SAMPLE_RATE)


def hum(seconds: float) -> Speech:
    return np.sin(np.arange(int(22_050 * seconds)) * 0.05).astype(np.float32) * np.float32(0.1), 22_050


def test_nothing_made_is_nothing_heard() -> None:
    attack_folder("rhvoice")
    assert synthetic.synthetic_files("train") == {}


def test_no_file_is_heard_by_both_splits_and_whole_systems_are_kept_for_development() -> None:
    for known in synthetic.SYNTHESIZERS:
        lay(known.name, *(f"voice-{letter}_{number}" for letter in "abcdefgh" for number in range(2)))
    train, dev = (synthetic.synthetic_files(split) for split in ("train", "dev"))
    files = [{path for paths in found.values() for path in paths} for found in (train, dev)]
    assert not files[0] & files[1]
    assert {"pico", "festival-finnish"} <= set(dev) - set(train)
    voices = [{synthetic.voice_of(path) for path in found["rhvoice"]} for found in (train, dev)]
    assert not voices[0] & voices[1]
    assert len(voices[1]) == 1


def test_every_engine_is_known_and_its_share_in_training_too() -> None:
    assert set(engines.ENGINES) == set(synthetic.BY_NAME) - {"kokoro"}
    assert {share_group(name) for name in synthetic.BY_NAME} <= set(SYSTEM_SHARES)
    assert share_group("melgan") == "melgan"
    assert sum(SYSTEM_SHARES.values()) < 1


def test_kinds_are_drawn_evenly_and_kokoro_at_most_three_in_ten() -> None:
    shares = synthetic.shares_of_draws(["kokoro", "rhvoice", "festival-italian", "festival-czech"])
    assert shares["kokoro"] == pytest.approx(0.3)
    assert shares["festival-italian"] == pytest.approx(0.175)
    assert sum(shares.values()) == pytest.approx(1)
    assert synthetic.shares_of_draws(["kokoro"]) == {"kokoro": 1.0}


def test_a_draw_names_the_system_of_its_file() -> None:
    lay("hibari", "heart_0")
    lay("festival-czech", "czech_ph_1")
    files, random = synthetic.synthetic_files("train"), np.random.default_rng(0)
    drawn = [synthetic.draw(files, random) for _ in range(20)]
    assert {name for name, _ in drawn} == {"hibari", "festival-czech"}
    assert all(path.parent.name == name for name, path in drawn)
    assert synthetic.voice_of(files["festival-czech"][0]) == "czech_ph"


def test_speech_is_made_once_at_16_khz_and_spread_over_the_voices(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def say(name: str, text: str, speed: float) -> Speech:
        said.append(text)
        return hum(4.0 / speed)

    voices = [Voice(name, LATIN, partial(say, name)) for name in ("anna", "bela")]
    monkeypatch.setitem(engines.ENGINES, "pico", lambda: voices)
    monkeypatch.setattr(engines, "training_texts", lambda: ["Unused."])
    folder = engines.generate("pico", 0.25)
    assert len(said) == len(set(said)) > 3
    engines.generate("pico", 0.25)
    files = sorted(folder.glob("*.flac"))
    assert len(said) == len(files)
    assert {synthetic.voice_of(path) for path in files} == {"anna", "bela"}
    samples, rate = soundfile.read(files[0])
    assert rate == SAMPLE_RATE
    assert np.abs(samples).max() == pytest.approx(engines.PEAK, abs=0.01)


def test_a_system_that_never_speaks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.ENGINES, "pico", lambda: [Voice("mute", LATIN, lambda text, speed: hum(0.1))])
    monkeypatch.setattr(engines, "training_texts", lambda: ["Unused."])
    with pytest.raises(SystemExit, match=r"pico does not speak here: 0\.1 s"):
        engines.generate("pico", 0.1)


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(SilentError, match=r"sh gave no speech \(exit 3\): no such voice"):
        spoken_by(lambda path: ["sh", "-c", "echo no such voice >&2; exit 3"], {})


def test_a_package_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="cannot fetch festvox-none: needs apt-get and dpkg-deb"):
        debian.unpack(("festvox-none",))


def test_a_package_that_mirrors_lack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    monkeypatch.setattr(debian, "_options", lambda folder: ())
    refused = subprocess.CompletedProcess([], 100, "", "E: Unable to locate package festvox-none\n")
    monkeypatch.setattr(debian.subprocess, "run", lambda *args, **options: refused)
    with pytest.raises(SystemExit, match="festvox-none cannot be fetched: E: Unable to locate"):
        debian.unpack(("festvox-none",))


def test_babble_has_words_and_an_end() -> None:
    texts = [babble(CZECH, np.random.default_rng(seed)) for seed in range(8)]
    assert len(set(texts)) == 8
    assert all(3 <= len(text.split()) <= 40 and text[-1] in ".?" for text in texts)
