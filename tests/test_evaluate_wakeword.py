"""``evaluate.py wakeword``: misses on the word, false activations on everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation_helpers import Bench, corpus_items, write_index

from tools.evaluation.wakeword import Heard, describe, false_activations


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_misses_and_false_activations(bench: Bench, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("pymicro_wakeword")
    recordings = corpus_items(corpus, "picovoice-wakewords")
    words = [i for i in recordings if i.text == "alexa"][:4] + [i for i in recordings if i.text == "computer"][:3]
    index = write_index(tmp_path / "data", words)
    page = tmp_path / "page.md"
    ran = bench.run("wakeword", index, "--engines", "micro", "--page", page, "--limit", 2)
    assert ran.status == 0
    micro = ran.result["engines"]["micro"]
    assert micro["missed"]["n"] == micro["missed_ungated"]["n"] == 4 and micro["missed"]["errors"] <= 1
    assert micro["false"]["count"] == 0 and 0 < micro["false"]["hours"] < 0.01
    assert list(micro["false_by_set"]) == ["picovoice-wakewords"]
    assert page.read_text().startswith("# Wake word") and ran.out.strip().splitlines()[0] in page.read_text()
    shared = bench.run("wakeword", index, "--engines", "micro", "--share", "micro=1")
    assert shared.result["others"] == {"micro": 1}, "a slow engine may hear less"
    assert shared.result["engines"]["micro"]["false"]["hours"] < micro["false"]["hours"]
    assert shared.result["engines"]["micro"]["missed"] == micro["missed"], "but all of the word"
    astray = bench.run("wakeword", index, "--engines", "micro", "--share", "open=1")
    assert astray.status == 2 and "open" in astray.err
    unknown = bench.run("wakeword", index, "--word", "sesame")
    assert unknown.status == 2 and "sesame" in unknown.err


def test_counts_have_exact_intervals() -> None:
    heard = [Heard(1800.0, {"micro": count}, {}, {"micro": 1.0}) for count in (0, 1, 2, 0)]
    assert false_activations(heard[:1], "micro")["ci95"] == pytest.approx([0, 3.689 / 0.5], rel=1e-3)
    three = false_activations(heard, "micro")
    assert (three["count"], three["hours"], three["per_hour"]) == (3, 2.0, 1.5)
    assert three["ci95"] == pytest.approx([0.6187 / 2, 8.7673 / 2], rel=1e-3)
    assert false_activations([], "micro")["per_hour"] is None


def test_the_table_names_the_sets_with_false_activations() -> None:
    nothing = {"rate": None, "n": 0, "ci95": None, "errors": 0}
    false = {"count": 1, "hours": 0.5, "per_hour": 2.0, "ci95": [0.05, 11.1]}
    part = {"missed": nothing, "missed_ungated": nothing, "false": false, "cpu_per_second": 0.004}
    text = describe({"engines": {"micro": {**part, "false_by_set": {"street": false, "quiet": {**false, "count": 0}}}}})
    assert "micro: street" in text and "quiet" not in text
