"""``evaluate.py spoofing``, ``liveness`` and ``decision``: counts, groups, rates."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from evaluation_helpers import Bench, corpus_items, write_index
from small_models import write_models

from tools.evaluation.deciding import REFUSED, splice
from tools.evaluation.report import detection, partition, rate, table
from tools.evaluation.selection import read_rows, system
from tools.train.data.corpus import Item
from voiceid.audio import read_waveform
from voiceid.models.store import shipped_folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_models(tmp_path_factory.mktemp("models"))
    for name in ("units.json", "units.onnx"):
        if (shipped_folder() / name).is_file():
            (folder / name).symlink_to(shipped_folder() / name)
    return folder


@pytest.fixture
def bench(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("VOICEID_MODELS", str(models))
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path / "cache"))
    return Bench(tmp_path, capsys)


@pytest.fixture(scope="module")
def speech(corpus: Path) -> list[Item]:
    """Bona fide and vocoded speech of two speakers, in two sets."""
    genuine, copies = (corpus_items(corpus, "demo-arctic", kind) for kind in ("bonafide", "vocoder"))
    names = sorted({i.speaker for i in copies if sum(g.speaker == i.speaker for g in genuine) >= 5})[:2]
    chosen = [
        i
        for name in names
        for part, n in ((genuine, 5), (copies, 3))
        for i in [x for x in part if x.speaker == name][:n]
    ]
    portuguese = corpus_items(corpus, "mls-pt-yourtts-gt")
    return chosen + [i for i in portuguese if i.speaker == portuguese[0].speaker][:5]


def test_spoofing_by_kind_set_and_system(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    ran = bench.run("spoofing", write_index(tmp_path / "data", speech))
    assert ran.status == 0
    result = ran.result
    assert (result["n_bonafide"], result["n_spoof"]) == (15, 6)
    assert 0 <= result["ci95"][0] <= result["eer"] <= result["ci95"][1] <= 1
    assert result["by"]["kind"]["vocoder"]["n_spoof"] == 6
    assert sum(part["n_spoof"] for part in result["by"]["note"].values()) == 6
    own = result["by"]["set"]["demo-arctic"]
    assert (own["n_bonafide"], own["bonafide_from"]) == (10, "this set")
    alone = result["by"]["set"]["mls-pt-yourtts-gt"]
    assert alone["eer"] is None
    assert alone["thresholds"]["balanced"]["bpcer"]["n"] == 5
    for point in result["thresholds"].values():
        assert point["bpcer"]["n"] == 15
        assert point["apcer"]["n"] == 6
    assert set(result["apcer_at_bpcer"]) == {"0.01", "0.05"}


def test_kinds_choose_attacks_and_keep_bona_fide(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    converted = dataclasses.replace(speech[5], kind="vc")
    index = write_index(tmp_path / "data", [*speech, converted])
    result = bench.run("spoofing", index, "--kinds", "vc").result
    assert (result["n_bonafide"], result["n_spoof"]) == (15, 1)
    one_class = bench.run("spoofing", index, "--kinds", "replay").result
    assert one_class["eer"] is None
    assert one_class["reason"] == "no spoof trials"
    fewer = bench.run("spoofing", index, "--limit", 7).result
    assert fewer["n_bonafide"] + fewer["n_spoof"] == 7


def test_liveness_measures_replays(bench: Bench, speech: list[Item], corpus: Path, tmp_path: Path) -> None:
    replays = corpus_items(corpus, "replay-voices", "replay")
    result = bench.run("liveness", write_index(tmp_path / "data", speech + replays)).result
    assert (result["command"], result["n_bonafide"], result["n_spoof"]) == ("liveness", 15, len(replays))


def test_decision_tries_owners_others_and_attacks(
    bench: Bench, speech: list[Item], models: Path, tmp_path: Path
) -> None:
    if not (models / "units.onnx").exists():
        pytest.skip("no units model is built")
    stray = dataclasses.replace(speech[5], speaker="nobody")
    index = write_index(tmp_path / "data", [*speech, stray])
    ran = bench.run("decision", index, "--splices", 3, "--seconds", 3)
    assert ran.status == 0
    result = ran.result
    assert result["n_speakers"] == 3
    assert result["n_target"] + sum(result["outcomes"]["target"].get(k, 0) for k in ["inconclusive"]) == 3 * 2
    assert result["rates"]["far"]["n"] <= 3 * 2 * 2
    assert set(result["iapar"]) == {"vocoder", "vocoder (not aimed)", "splice"}
    for value in (result["frr"], result["far"], *result["iapar"].values(), result["a_dcf"] / 10):
        assert 0 <= value <= 1
    assert result["rates"]["iapar"]["vocoder"]["n"] + result["inconclusive"]["vocoder"]["errors"] == 6
    assert set(result["frr_by_gate"]) == {"identity", "spoofing", "liveness", "consistency", "voiceid"}
    refused = result["rates"]["frr"]["errors"]
    assert max(gate["errors"] for gate in result["frr_by_gate"].values()) <= refused
    assert result["by"]["kind"]["nontarget"]["accepted"]["rate"] == result["far"]
    assert set(result["points"]) == {"convenience", "balanced", "strict"}
    assert {k: result["points"]["balanced"][k] for k in ("frr", "far", "iapar")} == result["rates"]
    caught = result["points"]["balanced"]["splices_caught"]
    assert caught["decision"]["n"] - caught["decision"]["errors"] == result["rates"]["iapar"]["splice"]["errors"]
    assert caught["consistency"]["errors"] <= caught["decision"]["errors"]
    for outcomes in result["outcomes"].values():
        assert set(outcomes) <= {"accepted", "rejected", "spoof", "replay", "inconsistent", "inconclusive"}


def test_units_are_measured_on_bona_fide_speech_only(bench: Bench, speech: list[Item], tmp_path: Path) -> None:
    ran = bench.run("units", write_index(tmp_path / "data", speech), "--kinds", "vocoder")
    assert ran.status == 2
    assert "bona fide" in ran.err


def test_a_splice_holds_both_voices(speech: list[Item]) -> None:
    owner, other = (read_waveform(i.path).samples for i in (speech[0], speech[-1]))
    made = splice(owner, other, np.random.default_rng(0))
    assert 1.8 * 16_000 <= len(made) <= 5 * 16_000
    assert np.array_equal(made, splice(owner, other, np.random.default_rng(0)))


def test_detection_of_separable_and_lone_classes() -> None:
    good = detection([3, 4, 5, 6], [0, 1, 2], (list("abcd"), list("efg")), ("bonafide", "spoof"))
    assert good["eer"] == 0
    assert good["ci95"] == [0, 1], "three error-free attacks prove little"
    lone = detection([], [1.0], ([], ["a"]), ("bonafide", "spoof"))
    assert (lone["eer"], lone["ci95"], lone["reason"], lone["n_spoof"]) == (None, None, "no bonafide trials", 1)


def test_rates_and_tables() -> None:
    assert rate(0, 0)["rate"] is None
    assert rate(1, 4)["rate"] == 0.25
    assert rate(0, 100)["ci95"][1] == pytest.approx(0.037, abs=1e-3)
    assert {k: list(v) for k, v in partition(["b", "a", "", "b"]).items()} == {"b": [0, 3], "a": [1]}
    lines = table(["x", "rate"], [["first", "1"], ["2", "22"]]).splitlines()
    assert lines[2] == "first     1"
    assert REFUSED < 0


def test_indices_tolerate_odd_rows(tmp_path: Path) -> None:
    path = tmp_path / "index.csv"
    path.write_text("path,speaker,kind,seconds,note\na.wav,x,,much,sys A; text 3\n,y,tts,1,\nb.wav,y\n", "utf-8")
    first, second = read_rows(path)
    assert (first.kind, first.seconds, system(first), first.path) == ("bonafide", 0.0, "sys A", tmp_path / "a.wav")
    assert (second.speaker, second.kind) == ("y", "bonafide")
