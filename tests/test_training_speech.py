"""Speech to train on besides the whole corpus: samples of it, and recordings of packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.train.data import packages
from tools.train.data.corpus import read_index
from tools.train.data.sample import main, sample


def test_a_sample_has_a_few_clips_of_a_few_speakers_of_every_set_and_split(corpus: Path) -> None:
    items = read_index(corpus / "index.csv")
    kept = sample(items, speakers=3, clips=2, seed=0)
    assert kept == sample(items, speakers=3, clips=2, seed=0)
    chosen = [item for item in items if item.path in kept]
    assert {(item.set, item.split, item.kind) for item in chosen} == {(i.set, i.split, i.kind) for i in items}
    readers = [item.speaker for item in chosen if item.set == "ls-test-clean" and item.split == "test"]
    assert len(set(readers)) == 3 and len(readers) == 6
    assert sum(item.set == "picovoice-commands" for item in chosen) == 6
    assert {i.path for i in items if i.kind == "rir"} <= kept


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["new", "--speakers", "0"], "--speakers 0 --clips 40: both must be at least 1"),
        (["new", "--clips", "-1"], "--speakers 6 --clips -1: both must be at least 1"),
        (["file"], "file/index.csv cannot be written (File exists); name another folder"),
        (["corpus"], "corpus is the corpus itself; name another folder"),
    ],
)
def test_a_sample_that_cannot_be_made_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    index = tmp_path / "corpus" / "index.csv"
    index.parent.mkdir()
    index.write_text("path\n")
    (tmp_path / "file").touch()
    monkeypatch.setenv("VOICEID_CORPUS", str(index.parent))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sample", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert told in f"{ended.value} {capsys.readouterr().err}"
    assert index.read_text() == "path\n" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [["--pritn"], ["--help"], ["--print", "gpu"], ["cpu", "--print"]])
def test_no_training_starts_with_words_that_mean_nothing(words: list[str], tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "tools" / "train" / "models.sh"
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false", "VOICEID_CACHE": str(tmp_path)}
    ran = subprocess.run([script, *words], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "") and "usage: tools/train/models.sh" in ran.stderr


def test_training_takes_relative_paths_to_every_folder_that_it_runs_in(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "tools" / "train" / "models.sh"
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ -d "${VOICEID_MODELS:-.}" ] || exit 3\ntouch "$VOICEID_CACHE/run"\n')
    python.chmod(0o755)
    near = os.path.relpath(tmp_path, script.parents[2])
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": f"{near}/python", "VOICEID_CACHE": f"{near}/a cache"}
    ran = subprocess.run([script, "--rehearse"], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "tools.train.recognizer.card" in ran.stdout.splitlines()[-1]
    assert (tmp_path / "a cache" / "rehearsal" / "run").is_file()


def test_recordings_of_packages_are_told_apart_by_voice_where_a_folder_holds_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "games/fillets-ng/sound/cabin1/cs/cab-1.ogg",
        "games/fillets-ng/sound/cabin1/music.ogg",
        "tuxpaint/stamps/animals/cat_desc_fr.ogg",
        "tuxpaint/stamps/animals/cat.ogg",
        "klettres/de/alpha/a.ogg",
        "klettres/de/syllab/ab.ogg",
        "klettres/en/alpha/readme.txt",
        "kajongg/voices/de/male1/east.ogg",
        "games/hedgewars/Data/Sounds/voices/Robot/hello.ogg",
        "games/hedgewars/Data/Sounds/voices/Pirate/hello.ogg",
    )
    for name in names:
        path = tmp_path / "usr" / "share" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(packages, "unpack", lambda wanted: tmp_path)
    assert [(path.name, speaker, package) for path, speaker, package in packages.package_sources()] == [
        ("cab-1.ogg", "", "fillets-ng-data-cs"),
        ("cat_desc_fr.ogg", "", "tuxpaint-stamps-default"),
        ("a.ogg", "klettres-data-de", "klettres-data"),
        ("ab.ogg", "klettres-data-de", "klettres-data"),
        ("east.ogg", "kajongg-de-male1", "kajongg"),
        ("hello.ogg", "hedgewars-data-Pirate", "hedgewars-data"),
    ]


def test_the_detector_hears_people_alone_and_no_package_in_two_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("klettres/de/alpha/a.ogg", "ktuberling/sounds/fr/eye.wav", "qabcs/abcs/de/sounds/words/ball.ogg"):
        path = tmp_path / "usr" / "share" / name
        path.parent.mkdir(parents=True)
        soundfile.write(path, np.zeros(4000), 16_000)
    (tmp_path / "usr" / "share" / "klettres" / "de" / "alpha" / "b.ogg").write_bytes(b"torn")
    monkeypatch.setattr(packages, "unpack", lambda wanted: tmp_path)
    train, dev = packages.package_items("train"), packages.package_items("dev")
    assert [(item.path.name, item.set, item.speaker) for item in train] == [
        ("a.ogg", "klettres-data", "klettres-data-de")
    ]
    assert [(item.path.name, item.kind, item.seconds) for item in dev] == [("eye.wav", "bonafide", 0.25)]
