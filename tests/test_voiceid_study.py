"""The VoiceID study from data to report, on a few people and small models."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
from evaluation_helpers import corpus_items, write_index
from small_models import write_models

from tools.evaluation.selection import read_rows
from tools.studies.errors import StudyError
from tools.studies.voiceid.__main__ import main
from tools.studies.voiceid.config import read_study
from tools.studies.voiceid.people import choose
from tools.studies.voiceid.trials import read_trials
from tools.train.data.corpus import Item
from voiceid.models.store import shipped_folder

STUDY = """
output = "{output}"
index = "{index}"
steps = ["generate", "score", "success", "transform", "authentication"]
seed = {seed}
[people]
count = 2
enrolment = 2
genuine = 1
stolen_seconds = 6.0
[attacks]
systems = ["griffin-lim-mel"]
full = 4
partial = 2
replay = 2
seconds = [2.0, 3.0]
[[attacks.programs]]
name = "thief"
command = ["{python}", "-c", "import shutil, sys; shutil.copy(*sys.argv[1:3])", "{{reference}}", "{{output}}"]
[transforms]
names = ["mcadams"{units}]
utterances = 1
enrolments = 3
unit_seconds = 6.0
[fusion]
strangers = 1
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_models(tmp_path_factory.mktemp("models"))
    for name in ("units.json", "units.onnx"):
        if not (shipped_folder() / name).is_file():
            pytest.skip("no units model is built")
        (folder / name).symlink_to(shipped_folder() / name)
    return folder


@pytest.fixture
def place(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VOICEID_MODELS", str(models))
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def recordings(corpus: Path) -> list[Item]:
    """Six short recordings of each of three people; the third has one long one less."""
    items = sorted(corpus_items(corpus, "ls-test-clean"), key=lambda item: item.seconds)
    fitting = [item for item in items if 2.5 <= item.seconds <= 4.5]
    names = [name for name, count in Counter(item.speaker for item in fitting).most_common() if count >= 6][:3]
    return [item for name in names for item in [i for i in fitting if i.speaker == name][:6]]


def write_study(place: Path, index: Path, *, seed: int = 0, output: str = "out", units: bool = False) -> Path:
    path = place / "study.toml"
    named = ', "units-100"' if units else ""
    text = STUDY.format(output=place / output, index=index, seed=seed, python=sys.executable, units=named)
    path.write_text(text, "utf-8")
    return path


def test_from_data_to_report_and_again(place: Path, recordings: list[Item], capsys: pytest.CaptureFixture[str]) -> None:
    study = write_study(place, write_index(place / "data", recordings, copy=True), units=True)
    out = place / "out"
    assert main(["run", str(study)]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "Table I: success of attacks" in said
    assert "report.html written" in said

    rows = read_rows(out / "attacks" / "index.csv")
    counts = Counter(row.set for row in rows)
    assert counts == {
        "enrolment": 4, "genuine": 2, "genuine-room": 2, "full": 4, "partial": 2, "replay": 2, "full-played": 4,
        "partial-played": 2,
    }  # fmt: skip
    assert {row.kind for row in rows if row.set == "full"} == {"vocoder", "tts"}
    assert all(row.path.is_file() for row in rows)
    assert all(2.0 <= row.seconds <= 3.0 for row in rows if row.set == "genuine")
    enrolled = {row.path for row in rows if row.set == "enrolment"}
    sources = {out / "attacks" / row.pair for row in rows if row.set in ("full", "genuine", "replay")}
    assert sources
    assert not {path.resolve() for path in enrolled} & {path.resolve() for path in sources}
    played = [row for row in rows if row.set == "full-played"]
    assert all(" by " in row.note.split(";")[0] for row in played)

    trials = read_trials(out / "trials.csv")
    assert len(trials) == 2 * (len(rows) - counts["enrolment"])
    assert sum(trial.target for trial in trials) == len(trials) / 2

    report = (out / "report.html").read_text("utf-8")
    for text in ("Table I: success", "Figure 4", "units-100", "Seed of every random choice: 0", "Left out: fusion"):
        assert text in report
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert summary["results"]["success"]["sets"]["full"]["agent"]["n"] == 4
    (authentication,) = summary["results"]["authentication"]["cards"].values()
    assert set(authentication["success"]) == {"raw", "mcadams", "units-100"}
    assert summary["versions"]["packages"]["numpy"] == np.__version__

    # again: what is there is kept, what is gone comes back the same
    clip = next(row.path for row in played)
    first, times = soundfile.read(clip)[0], {p: p.stat().st_mtime_ns for p in out.rglob("*.flac")}
    trials_time = (out / "trials.csv").stat().st_mtime_ns
    clip.unlink()
    assert main(["run", str(study)]) == 0
    assert np.array_equal(soundfile.read(clip)[0], first)
    assert {p: t for p, t in times.items() if p != clip}.items() <= {
        p: p.stat().st_mtime_ns for p in out.rglob("*.flac")
    }.items()
    assert (out / "trials.csv").stat().st_mtime_ns == trials_time

    # other options must not pass for these
    capsys.readouterr()
    assert main(["generate", str(write_study(place, place / "data" / "index.csv", seed=1))]) == 2
    assert "remove it, or choose another output" in capsys.readouterr().err


def test_no_recording_has_two_uses(place: Path, recordings: list[Item]) -> None:
    index = write_index(place, [*recordings, *recordings])  # every file twice
    cast = choose(read_study(write_study(place, index)))
    assert len(cast.people) == 2
    for person in cast.people:
        paths = [item.path for item in person.recordings]
        assert len(paths) == len(set(paths)) >= 4
        assert len(person.enrolment) == 2
        assert person.stolen
    assert not {item.speaker for item in cast.others} & {person.name for person in cast.people}
    assert cast == choose(read_study(write_study(place, index)))


def test_data_that_bears_no_study_is_told(
    place: Path, recordings: list[Item], capsys: pytest.CaptureFixture[str]
) -> None:
    one = [item for item in recordings if item.speaker == recordings[0].speaker]
    index = write_index(place / "one", one)
    assert main(["generate", str(write_study(place, index))]) == 2
    assert "1 of 1 speakers have the 2 recordings to enrol" in capsys.readouterr().err
    with (place / "two.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows(
            [("path", "speaker", "kind"), (one[0].path, "ada", "bonafide"), (one[0].path, "bea", "bonafide")]
        )
    with pytest.raises(StudyError, match="of ada and of bea"):
        choose(read_study(write_study(place, place / "two.csv")))
    assert main(["score", str(write_study(place, index))]) == 2
    assert "make it with the step 'generate'" in capsys.readouterr().err
    index.write_text(index.read_text().replace("speaker", "who", 1))
    assert main(["generate", str(write_study(place, index))]) == 2
    assert "no column speaker; an index needs path, speaker and kind" in capsys.readouterr().err


def test_copies_and_empty_files_never_pass_for_recordings(
    place: Path, recordings: list[Item], capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(place, write_index(place / "data", recordings, copy=True))
    first, second = choose(read_study(study)).people
    again, original = first.genuine[0].path, first.enrolment[0].path
    kept = again.read_bytes()
    again.write_bytes(original.read_bytes())
    assert main(["generate", str(study)]) == 2
    said = capsys.readouterr().err
    assert "is a copy of" in said and again.name in said and original.name in said
    again.write_bytes(kept)
    assert main(["generate", str(study)]) == 0
    for item in second.enrolment:
        item.path.write_bytes(b"")
    assert main(["score", str(study)]) == 2
    assert f"{second.name}: none of their enrolment recordings can be used" in capsys.readouterr().err
    assert not (place / "out" / "trials.csv").exists()


def test_a_killed_worker_is_told_and_the_next_run_goes_on(
    place: Path, recordings: list[Item], capsys: pytest.CaptureFixture[str]
) -> None:
    once = f'[ -e "{place}/fell" ] || {{ touch "{place}/fell"; kill -9 $PPID; }}; cp "$0" "$1"'
    study = write_study(place, write_index(place / "data", recordings, copy=True))
    text = study.read_text().replace("seed = 0", "seed = 0\njobs = 2").replace("full = 4", "full = 16")
    command = json.dumps(["sh", "-c", once, "{reference}", "{output}"])
    lines = [f"command = {command}" if line.startswith("command") else line for line in text.splitlines()]
    study.write_text(
        "\n".join(lines).replace('["griffin-lim-mel"]', "[]\nplayed = false").replace("replay = 2", "replay = 0")
    )
    assert main(["generate", str(study)]) == 2
    assert "a worker was killed" in capsys.readouterr().err
    assert (place / "fell").exists()
    assert main(["generate", str(study)]) == 0
    rows = read_rows(place / "out" / "attacks" / "index.csv")
    assert Counter(row.set for row in rows)["full"] == 16


def test_systems_that_cannot_be_used_are_told_first(
    place: Path, recordings: list[Item], capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(place, write_index(place / "data", recordings))
    good = study.read_text()
    for text, said in (
        (good.replace("griffin-lim-mel", "hifi-gan"), "no system 'hifi-gan'"),
        (good.replace(sys.executable, "/nowhere/tts"), "is not to be found"),
        (good.replace("{output}", "out.wav"), "has no {output}"),
        (good.replace("shutil.copy(*", "sys.exit(*"), "thief: exit status"),
        (good.replace('"mcadams"', '"whisper"'), "no transformation 'whisper'"),
    ):
        study.write_text(text)
        step = "transform" if "whisper" in text else "generate"
        assert main([step, str(study)]) == 2
        assert said in capsys.readouterr().err
