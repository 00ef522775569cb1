"""``evaluate.py verification``: counts, drop rules, robustness."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
from evaluation_helpers import Bench, corpus_items, write_index
from small_models import write_models

from tools.evaluation.audio import Condition, load_utterance
from tools.evaluation.trials import enrolment_order, same_recording
from tools.train.data.corpus import Item
from tools.train.teachers.resemblyzer import partial_starts
from voiceid.errors import AudioError


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def bench(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("VOICEID_MODELS", str(models))
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path / "cache"))
    return Bench(tmp_path, capsys)


@pytest.fixture(scope="module")
def speech(corpus: Path) -> list[Item]:
    """Five utterances of each of three speakers."""
    items = corpus_items(corpus, "mls-pt-yourtts-gt")
    names = sorted({item.speaker for item in items})[:3]
    return [item for name in names for item in [i for i in items if i.speaker == name][:5]]


def item(path: str, speaker: str, *, set_name: str = "", text: str = "") -> Item:
    return Item(Path(path), set_name, speaker, text, "bonafide", "", 0.0, "A", "")


def test_every_other_utterance_meets_every_template(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    ran = bench.run("verification", write_index(tmp_path / "data", speech, copy=True))
    assert ran.status == 0
    result = ran.result
    assert (result["n_speakers"], result["n_target"], result["n_nontarget"]) == (3, 3 * 2, 3 * 2 * 2)
    assert 0 <= result["ci95"][0] <= result["eer"] <= result["ci95"][1] <= 1
    assert result["eer"] < 0.5
    part = result["by"]["set"]["mls-pt-yourtts-gt"]
    assert part["n_target"] == 6
    assert part["eer"] == result["eer"]
    assert result["by"]["kind"]["bonafide"]["n_nontarget"] == 12
    assert set(result["thresholds"]) == {"convenience", "balanced", "strict"}
    assert "n target" in ran.out


def test_again_gives_the_same_and_seeds_change_the_trials(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech)
    first, again, other = (bench.run("verification", index, "--seed", seed) for seed in (0, 0, 5))
    keep = ("eer", "ci95", "min_dcf_p01", "cllr")
    assert [first.result[k] for k in keep] == [again.result[k] for k in keep]
    assert first.result["cllr"] != other.result["cllr"]


def test_crops_drop_shorter_clips_and_count_them(bench: Bench, corpus: Path, tmp_path: Path) -> None:
    items = corpus_items(corpus, "vctk-yourtts-gt")
    chosen = [i for i in items if i.speaker in sorted({i.speaker for i in items})[:2]]
    seconds = sorted(i.seconds for i in chosen)[len(chosen) // 2] + 0.005
    result = bench.run("verification", write_index(tmp_path / "data", chosen), "--seconds", seconds).result
    dropped = result["files"]["dropped"][f"shorter than {seconds:g} s"]
    assert 0 < dropped < len(chosen) - 6
    assert result["n_target"] == len(chosen) - 6 - dropped


def test_noise_changes_scores_and_needs_no_noise_rows(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech)
    clean, noisy = bench.run("verification", index), bench.run("verification", index, "--snr", 0)
    assert noisy.result["condition"] == {"seconds": None, "snr_db": 0.0, "noise_files": 0}
    assert noisy.result["cllr"] > clean.result["cllr"]


def test_conditions_share_the_enrolments(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech)
    ran = bench.run("verification", index, "--conditions", "2s, full@0dB,900s", "--det", tmp_path / "det.svg")
    found = ran.result["conditions"]
    assert list(found) == ["2s", "full@0dB", "900s"]
    assert (found["2s"]["n_target"], found["2s"]["n_nontarget"]) == (6, 12)
    assert found["full@0dB"]["eer"] >= ran.result["eer"]
    assert found["full@0dB"]["thresholds"] != ran.result["thresholds"]
    assert found["900s"]["eer"] is None
    assert "shorter than 900 s" in found["900s"]["reason"]
    assert ran.result["condition"]["noise_files"] == 0
    assert (ran.status, (tmp_path / "det.svg").exists()) == (2, False), "six targets make no curve, but all is written"
    assert "30 trials of each class" in ran.err
    with pytest.raises(SystemExit):
        bench.run("verification", index, "--conditions", "3 seconds")


def test_embedders_meet_the_trials_of_verification(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech)
    ran = bench.run("teachers", index, "--embedders", "identity", "--seconds", 2)
    row = ran.result["embedders"]["identity"]
    assert (row["as_shipped"]["n_target"], row["as_shipped"]["n_nontarget"]) == (6, 12)
    again = bench.run("verification", index, "--seconds", 2)
    assert row["as_shipped"]["eer"] == again.result["eer"]
    assert 0 < row["speech_seconds"] <= 12
    assert row["cpu_ms_per_second"] > 0
    assert "identity, cosine" in ran.out


def test_partial_utterances_cover_the_speech() -> None:
    assert partial_starts(100) == [0]
    assert partial_starts(160 * 160) == [0]
    assert partial_starts((160 + 77) * 160) == [0, 77]
    assert partial_starts(200 * 160) == [0, 77], "the second is filled by 123 of 160 frames"
    assert partial_starts(195 * 160) == [0], "the second would be filled by 118"


def test_speakers_with_too_few_utterances_are_dropped_and_counted(
    bench: Bench, speech: list[Item], tmp_path: Path
) -> None:
    unlabelled = dataclasses.replace(speech[0], speaker="")
    result = bench.run("verification", write_index(tmp_path / "data", [*speech[:13], unlabelled])).result
    assert result["n_speakers"] == 2
    assert result["files"]["dropped"] == {"speaker with fewer than 4 utterances": 3, "no speaker label": 1}


def test_missing_and_unreadable_files_are_listed(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech, copy=True)
    files = sorted((tmp_path / "data" / "audio").iterdir())
    files[0].unlink()
    files[7].write_bytes(b"this is not audio")
    ran = bench.run("verification", index)
    assert ran.status == 1, "two of fifteen files are more than the accepted share"
    assert ran.result["files"]["failed"] == 2
    assert set(map(Path, ran.result["files"]["failures"])) == {files[0], files[7]}
    assert "2 of" in ran.err
    assert bench.run("verification", index, "--max-failures", 0.2).status == 0


def test_unusable_requests_say_why(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech)
    for options, message in (
        (("--sets", "nowhere"), "no row left"),
        (("--kinds", "tts"), "bona fide"),
        (("--card", str(tmp_path / "none.json")), "no such model card"),
    ):
        ran = bench.run("verification", index, *options)
        assert ran.status == 2
        assert message in ran.err
        assert ran.result == {}
    assert "cannot be read" in bench.run("verification", tmp_path / "absent.csv").err
    bare = write_index(tmp_path / "bare", speech, columns=("path", "kind"))
    assert "no column speaker" in bench.run("verification", bare).err
    lonely = write_index(tmp_path / "lonely", speech[:3])
    assert "none of 1 speakers" in bench.run("verification", lonely).err


def test_a_bare_index_suffices_and_one_speaker_gives_no_eer(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    index = write_index(tmp_path / "data", speech[:5], columns=("path", "speaker", "kind"))
    ran = bench.run("verification", index)
    assert ran.status == 0
    assert ran.result["eer"] is None
    assert ran.result["reason"] == "no nontarget trials"
    assert ran.result["n_target"] == 2


def test_enrolment_takes_chapters_in_turn() -> None:
    items = [item(f"7-{chapter}-{i:04d}.flac", "ls7") for chapter in (1, 1, 1, 1, 2, 3) for i in range(3)]
    for seed in range(5):
        order = enrolment_order(items, seed)
        assert {i.path.stem.split("-")[1] for i in order[:3]} == {"1", "2", "3"}
    shuffled = random.Random(1).sample(items, len(items))
    assert [i.path for i in enrolment_order(shuffled, 3)][:3] == [i.path for i in enrolment_order(items, 3)][:3]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            item("a.flac", "vctk-p1", text="Please call Stella."),
            item("b.flac", "vctk-p1", text="please call stella"),
            True,
        ),
        (item("a.flac", "vctk-p1", text="one"), item("b.flac", "vctk-p1", text="two"), False),
        (item("a.flac", "vctk-p1", set_name="x"), item("b.flac", "vctk-p1", set_name="y", text="two"), True),
        (item("a.flac", "vctk-p1", text="one"), item("b.flac", "vctk-p2", text="one"), False),
        (item("a.flac", "sc-1", text="cat"), item("b.flac", "sc-1", text="cat"), False),
        (item("7-12-0001.flac", "ls7", set_name="x"), item("7_12_000003_000001.flac", "ls7", set_name="y"), True),
        (item("7-12-0001.flac", "ls7", set_name="x"), item("7_13_000003_000001.flac", "ls7", set_name="y"), False),
        (item("7-12-0001.flac", "ls7", set_name="x"), item("7-12-0002.flac", "ls7", set_name="x"), False),
    ],
)
def test_pairs_of_one_recording(first: Item, second: Item, same: bool) -> None:
    assert same_recording(first, second) is same


def test_conditions_are_seeded_and_errors_typed(speech: list[Item], tmp_path: Path) -> None:
    condition = Condition(seconds=2.0, snr_db=5.0, seed=3)
    first, again = (load_utterance(speech[0], condition) for _ in range(2))
    assert np.array_equal(first.samples, again.samples)
    other = load_utterance(speech[0], dataclasses.replace(condition, seed=4))
    assert first.samples.shape != other.samples.shape or not np.array_equal(first.samples, other.samples)
    with pytest.raises(AudioError, match="no such audio file"):
        load_utterance(item(str(tmp_path / "none.flac"), "x"))
