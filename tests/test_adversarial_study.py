"""The study of adversarial samples from lists of trials to the report, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.adversarial_helpers import NARROW, write_identity
from tools.studies.adversarial import guard
from tools.studies.adversarial.__main__ import main
from tools.studies.adversarial.config import read_study
from tools.studies.adversarial.detect import area_under_roc, detection_rate, equal_error_rate, threshold
from tools.studies.adversarial.figures import operating_points
from tools.studies.adversarial.listing import balanced, by_speaker, genuine_trials, make_list, recorded_trials
from tools.studies.adversarial.trials import Trial, read_trials, write_trials
from tools.studies.errors import StudyError
from tools.train.data.corpus import Item, hash_split, read_index
from voiceid.models.card import read_card
from voiceid.models.store import find_model
from voiceid.types import SAMPLE_RATE

TRIALS = (
    Trial(True, ("ada/1.wav", "ada/2.wav"), "ada/3.wav"),
    Trial(False, ("ada/1.wav", "ada/2.wav"), "bob/3.wav"),
    Trial(True, ("bob/1.wav",), "bob/3.wav"),
    Trial(False, ("bob/1.wav",), "ada/3.wav"),
)


def item(name: str, speaker: str, kind: str = "bonafide", note: str = "", pair: str = "") -> Item:
    return Item(Path("/data") / name, "set", speaker, "", kind, pair, 3.0, "A", note)


PEOPLE = [item(f"{name}/{i}.wav", name) for name in ("ada", "bob", "cyd") for i in range(5)]


def test_lists_are_written_as_voxceleb_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "trials.txt"
    write_trials(path, TRIALS)
    assert path.read_text().splitlines()[1] == "0 ada/1.wav,ada/2.wav bob/3.wav"
    assert read_trials(path) == TRIALS
    assert len({trial.key for trial in TRIALS}) == len(TRIALS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no trials"),
        ("1 a.wav", "line 1: '1 a.wav' is not"),
        ("2 a.wav b.wav", "with label 1"),
        ("1 a.wav,b.wav b.wav", "b.wav is enrolled and tried"),
        ("1 a.wav b.wav\n1 a.wav b.wav", "listed twice"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trials.txt").write_text(text)
    with pytest.raises(StudyError, match=message):
        read_trials(tmp_path / "trials.txt")
    with pytest.raises(StudyError, match="cannot be read"):
        read_trials(tmp_path / "absent.txt")


def test_genuine_trials_keep_enrolment_and_tests_apart() -> None:
    options = {"enrolment": 2, "tests": 3, "impostors": 1, "seed": 0}
    trials = genuine_trials(by_speaker(PEOPLE, 0), Path("/data"), **options)
    assert sum(trial.target for trial in trials) == sum(not trial.target for trial in trials) == 9
    for trial in trials:
        (owner,) = {name.partition("/")[0] for name in trial.enrolment}
        assert trial.target == (owner == trial.test.partition("/")[0])
        assert trial.test not in trial.enrolment
    assert trials == genuine_trials(by_speaker(PEOPLE, 0), Path("/data"), **options)
    chosen = balanced(trials, 4, 0)
    assert sum(trial.target for trial in chosen) == len(chosen) - 4 == 4
    with pytest.raises(StudyError, match="0 speakers have more than 5"):
        genuine_trials(by_speaker(PEOPLE, 0), Path("/data"), **{**options, "enrolment": 5})


def test_recordings_outside_the_data_folder_keep_their_whole_path() -> None:
    people = by_speaker([item(f"{who}/{i}.wav", who) for who in ("ada", "bob") for i in range(4)], seed=0)
    own = people["ada"][0].path
    trials = genuine_trials(people, own.parent, enrolment=3, tests=1, impostors=1, seed=0)
    names = {name for trial in trials for name in (*trial.enrolment, trial.test)}
    assert {Path(name).is_absolute() for name in names} == {True, False}
    assert all((own.parent / name).parent.name in ("ada", "bob") for name in names)


def test_recorded_attacks_are_tried_against_whom_they_aim_at() -> None:
    people = by_speaker(PEOPLE, 0)
    attacks = [
        item("adv/1.flac", "ada", "adversarial", "true speaker ada, attack target bob; perturbation ada_bob"),
        item("adv/2.flac", "ada", "adversarial", "black-box", pair=f"set/{people['ada'][0].path.name}"),
        item("adv/3.flac", "ada", "adversarial", "attack target eve"),
    ]
    trials, dropped = recorded_trials(attacks, people, Path("/data"), 2)
    assert dropped == 1
    assert [(trial.target, trial.test) for trial in trials] == [(False, "adv/1.flac"), (True, "adv/2.flac")]
    assert trials[0].enrolment[0].startswith("bob/")
    assert people["ada"][0].path.relative_to("/data").as_posix() not in trials[1].enrolment


def test_the_threshold_lets_no_more_genuine_samples_through_than_asked() -> None:
    genuine = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    for rate, expected in ((0.05, 95.0), (0.01, 99.0), (0.005, 100.0), (0.001, 100.0)):
        assert threshold(genuine, rate) == expected
        assert np.mean(genuine > threshold(genuine, rate)) <= rate
    found = detection_rate(np.array([94.0, 95.0, 96.0, 200.0]), 95.0)
    assert (found["rate"], found["detected"], found["trials"]) == (0.5, 2, 4)
    assert detection_rate(np.zeros(0), 1.0)["rate"] is None


def test_measures_of_detection() -> None:
    assert area_under_roc(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == pytest.approx(7 / 8)
    target = np.array([True, True, False, False])
    assert equal_error_rate(np.array([0.1, 0.2, 0.8, 0.9]), target) == 1.0
    assert equal_error_rate(np.array([0.9, 0.8, 0.2, 0.1]), target) == 0.0
    assert equal_error_rate(np.array([0.9, 0.8]), np.array([True, True])) is None
    false, detected = operating_points(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(false, [0, 0, 0.5, 1])
    np.testing.assert_allclose(detected, [0, 0.5, 1, 1])


STUDY = """
output = "{folder}/study"
data = "{data}"
trials = "{folder}/trials.txt"
transforms = ["lowpass-2000", "quantise-7"]
card = "{card}"

[[attacks]]
name = "bim"
trials = "{folder}/trials.txt"
epsilons = [2, 4]

[[attacks]]
name = "pgd"
method = "pgd"
trials = "{folder}/trials.txt"
epsilons = [3]
alpha = 1.5
transform = "lowpass-2000"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilons = [3]", "epsilons = [0.5]", r"epsilons\[0\] is 0.5; it must lie between 1"),
        ("alpha = 1.5", "alpha = 0", "alpha is 0"),
        ("epsilons = [2, 4]", "steps = 3", "steps are for method 'pgd'"),
        ('"quantise-7"', '"lowpass-2000"', "none twice"),
        ('name = "bim"', 'name = "a/b"', "'a/b-2' is not of letters"),
        ("epsilons = [2, 4]", "epsilons = [2, 2]", "'bim-2' is named twice"),
        ('method = "pgd"', 'method = "cw"', "use one of 'bim', 'pgd'"),
        ("alpha = 1.5", "beta = 1", "unknown key 'beta'"),
        ("output =", "output", "cannot be read as TOML"),
    ],
)
def test_bad_studies_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "study.toml"
    text = STUDY.format(folder=tmp_path, data=tmp_path, card="narrow")
    path.write_text(text)
    assert [attack.condition(3.0) for attack in read_study(path).attacks] == ["bim-3", "pgd-3"]
    path.write_text(text.replace(old, new))
    with pytest.raises(StudyError, match=message):
        read_study(path)


@pytest.fixture
def study(tmp_path: Path, corpus: Path) -> Path:
    """A study of two people of the corpus, with its lists, on a narrow network."""
    index = read_index(corpus / "index.csv")
    for speaker, name in (("ls121", "ada"), ("ls260", "bob")):
        spoken = [one for one in index if one.speaker == speaker and one.kind == "bonafide" and one.seconds > 3]
        own = [one for one in spoken if one.path.suffix == ".flac"]
        for i, one in enumerate(own[:3], start=1):
            samples, rate = soundfile.read(one.path, stop=round(2.5 * SAMPLE_RATE))
            (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
            soundfile.write(tmp_path / "data" / name / f"{i}.wav", samples, rate)
    write_trials(tmp_path / "trials.txt", TRIALS)
    path = tmp_path / "study.toml"
    card = write_identity(tmp_path / "card")
    path.write_text(STUDY.format(folder=tmp_path, data=tmp_path / "data", card=card))
    return path


def test_a_study_runs_from_one_file_and_resumes(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = study.parent / "study"
    assert main(["run", str(study), "--workers", "1"]) == 0
    result = json.loads((output / "detection.json").read_text())
    assert set(result["attacks"]) == {"bim-2", "bim-4", "pgd-3"}
    strong, weak = result["attacks"]["bim-4"], result["attacks"]["bim-2"]
    assert strong["snr_db"]["median"] < weak["snr_db"]["median"]
    assert (strong["n_target"], strong["n_nontarget"]) == (2, 2)
    assert strong["transforms"]["quantise-7"]["detection"]["0.05"]["all"]["trials"] == 4
    assert not result["genuine"]["transforms"]["lowpass-2000"]["thresholds"]["0.05"]["supported"]
    report = (output / "report.md").read_text()
    assert "| pgd-3 | 2 + 2 |" in report
    assert "too few genuine trials" in report
    assert (output / "figures" / "roc.svg").stat().st_size > 0
    assert (output / "figures" / "variation-bim-4.png").read_bytes().startswith(b"\x89PNG")

    made = {path: path.stat().st_mtime_ns for path in output.rglob("*.flac")}
    assert len(made) == 3 * 4 + 2 * (2 + 3 * 4)
    lost = next(iter((output / "audio" / "bim-2").glob("*.flac")))
    before = lost.read_bytes()
    lost.unlink()
    assert main(["vocode", str(study), "--workers", "1"]) == 2
    assert "1 of 4 recordings are missing" in capsys.readouterr().err
    assert main(["run", str(study), "--workers", "1"]) == 0
    assert lost.read_bytes() == before
    untouched = [path for path in made if path.name != lost.name]
    assert all(path.stat().st_mtime_ns == made[path] for path in untouched)

    table = output / "scores" / "bim-2.csv"
    whole = table.read_text().splitlines()
    table.write_text("\n".join([whole[0], f"{whole[1].rpartition(',')[0]},nan", *whole[2:]]))
    assert main(["report", str(study)]) == 2
    assert "bim-2.csv: holds scores that are not numbers" in capsys.readouterr().err

    study.write_text(study.read_text().replace("alpha = 1.5", "alpha = 1.0"))
    assert main(["attack", str(study), "--workers", "1"]) == 2
    assert "holds files made with" in capsys.readouterr().err


def test_a_guard_is_made_of_a_finished_study(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["guard", str(study), "--transform", "quantise-7", "--test", str(study), "-o", str(study.parent)]
    assert main(arguments) == 2
    assert "detection.json: not a readable result file" in capsys.readouterr().err
    assert main(["run", str(study), "--workers", "1"]) == 0
    assert main(arguments) == 2
    assert "2 genuine target and 6 attacked non-target trials; a guard needs 67 and 8" in capsys.readouterr().err
    monkeypatch.setattr(guard, "REFUSED", dict.fromkeys(guard.REFUSED, 0.5))
    monkeypatch.setattr(guard, "LEAST_ATTACKED", 6)
    assert main(arguments) == 0
    card = find_model(str(study.parent / "guard.json"), "guard").card
    assert card.parameters["identity_sha256"] == read_card(study.parent / "card" / "narrow.json").sha256
    found = card.metrics["test"]["balanced"]
    assert found["bpcer"]["n"] == 2 and found["bpcer"]["errors"] <= 1
    assert {name: one["n"] for name, one in found["apcer"].items()} == {"bim-2": 2, "bim-4": 2, "pgd-3": 2}
    write_identity(study.parent / "card", shape=replace(NARROW, embedding=8))
    assert main(arguments) == 2
    assert "measured on another identity model" in capsys.readouterr().err


LISTS = """
[[lists]]
file = "{folder}/made.txt"
sets = ["set"]
split = "{split}"
enrolment = 1
tests = 1
only = "nontarget"
"""


def test_lists_are_made_from_the_studys_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name}/{i}.wav,set,{name},bonafide,3.0,A" for name in ("ada", "bob", "cyd", "dan") for i in range(3)]
    (tmp_path / "index.csv").write_text("\n".join(["path,set,speaker,kind,seconds,class", *rows]))
    splits = {name: hash_split(name) for name in ("ada", "bob", "cyd", "dan")}
    split = max(set(splits.values()), key=list(splits.values()).count)
    of_split = {name for name, own in splits.items() if own == split}
    path = tmp_path / "study.toml"
    text = STUDY.format(folder=tmp_path, data=tmp_path, card="narrow")
    path.write_text(text + LISTS.format(folder=tmp_path, split=split))
    (listing,) = read_study(path).lists
    make_list(tmp_path / "index.csv", listing)
    made = read_trials(tmp_path / "made.txt")
    assert not any(trial.target for trial in made)
    assert {trial.test.split("/")[0] for trial in made} == of_split
    assert f"0 target and {len(of_split)} non-target trials" in capsys.readouterr().out
    with pytest.raises(StudyError, match="no such index"):
        make_list(tmp_path / "absent.csv", listing)
    index = tmp_path / "index.csv"
    good = index.read_text()
    index.write_text(f"{good}\n{rows[0]}\n{rows[1]}")  # the same recordings again are no further ones
    make_list(index, listing)
    assert read_trials(tmp_path / "made.txt") == made
    index.write_text(good.replace("speaker", "who", 1))
    with pytest.raises(StudyError, match="no column speaker"):
        make_list(index, listing)
    index.write_text(f"{good}\n{rows[0].replace(',ada,', ',bob,')}")
    with pytest.raises(StudyError, match="is said to be of ada and of bob"):
        make_list(index, listing)
    index.write_text(good)
    for name in sorted(of_split)[:2]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.wav").write_bytes(b"the same")
    with pytest.raises(StudyError, match=r"0\.wav is a copy of"):
        make_list(index, listing)
    path.write_text(text + LISTS.format(folder=tmp_path, split=split).replace("tests = 1", "tests = 0"))
    with pytest.raises(StudyError, match="tests is 0; it must be at least 1"):
        read_study(path)


@pytest.mark.parametrize("name", ["adversarial", "adversarial-short", "guard"])
def test_the_documented_studies_can_be_read(name: str) -> None:
    study = read_study(Path(__file__).parents[1] / "docs" / "studies" / f"{name}.toml")
    assert {study.trials} <= {one.file for one in study.lists} or not study.lists


def test_recordings_that_cannot_be_used_are_named(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soundfile.write(study.parent / "data" / "bob" / "3.wav", np.zeros(SAMPLE_RATE), SAMPLE_RATE)
    assert main(["attack", str(study), "--workers", "1"]) == 1
    error = capsys.readouterr().err
    assert "failed: '0 ada/1.wav,ada/2.wav bob/3.wav'" in error
    assert "0.00 s of speech" in error
    assert main(["detect", str(study), "--workers", "1"]) == 2
    assert main(["report", str(study)]) == 2
    assert "detection.json: not a readable result file" in capsys.readouterr().err
