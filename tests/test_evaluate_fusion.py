"""``evaluate.py fusion``'s table, the key measure and the report's page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evaluation_helpers import corpus_items
from small_models import write_models

from tools.evaluation.deciding import load_pipeline
from tools.evaluation.fusion_table import FOLDS, cross_validate, honest_folds, paper_folds
from tools.evaluation.keys import measure_keys
from tools.evaluation.options import EvaluationError
from tools.evaluation.report_page import page
from tools.train.data.fusion_set import FusionTrial
from voiceid.models.store import shipped_folder
from voiceid.settings import Settings


def make_trials(speakers: int = 20, systems: int = 10) -> list[FusionTrial]:
    """Calibrated judges that err in 4 % each; the first score also names its speaker, so that leaks can be seen."""
    rng = np.random.default_rng(0)
    trials = []
    for number in range(speakers):
        speaker = f"s{number}"
        for attack in ("none", "spoof", "replay"):
            for source in (speaker, f"s{(number + 1) % speakers}", f"s{(number + FOLDS) % speakers}"):
                for _ in range(12):
                    signs = (source == speaker, attack != "spoof", attack != "replay")
                    llr = tuple(float(rng.normal(6 if good else -6, np.sqrt(12))) for good in signs)
                    system = "live" if attack == "none" else f"{attack}{rng.integers(systems)}"
                    trials.append(FusionTrial(llr, speaker, source, attack, system))  # type: ignore[arg-type]
    return trials


def test_paper_folds_hold_all_combinations_once() -> None:
    folds = paper_folds(make_trials(), 4_000, seed=0)
    assert len(folds) == FOLDS
    assert sum(len(fold[3]) for fold in folds) == 4_000
    for _, labels, _, test_labels in folds:
        assert labels.mean() == pytest.approx(1 / 8)
        assert test_labels.mean() == pytest.approx(1 / 8)


def test_honest_folds_are_halved_and_disjoint() -> None:
    trials = make_trials()
    owners = {t.llr: t for t in trials}
    folds = honest_folds(trials, seed=0)
    assert len(folds) == FOLDS
    for train, labels, test, test_labels in folds:
        assert labels.mean() == test_labels.mean() == 0.5
        sides = [[owners[tuple(row)] for row in side] for side in (train, test)]
        people = [{name for t in side for name in (t.speaker, t.source)} for side in sides]
        systems = [{t.system for t in side if t.attack != "none"} for side in sides]
        assert not people[0] & people[1]
        assert not systems[0] & systems[1]
        assert systems[1]


def test_five_classifiers_find_the_authentic() -> None:
    table = cross_validate(honest_folds(make_trials(), seed=0)[:2], 0, "test")
    assert list(table) == ["SVM", "MLP", "kNN", "SGD", "logistic regression"]
    for figures in table.values():
        assert 0.75 < figures["balanced_accuracy"]["mean"] <= 1
        assert figures["recall"]["mean"] == pytest.approx(figures["accuracy"]["mean"])
        assert figures["accuracy"]["sd"] < 0.1


def test_keys_repeat_for_one_enrolment_and_differ_otherwise(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (shipped_folder() / "units.onnx").is_file():
        pytest.skip("no units model is built")
    folder = write_models(tmp_path / "models")
    for name in ("units.json", "units.onnx"):
        (folder / name).symlink_to(shipped_folder() / name)
    monkeypatch.setenv("VOICEID_MODELS", str(folder))
    items = [i for i in corpus_items(corpus, "ls-test-clean") if i.speaker == "ls1089" and 4 < i.seconds < 8][:8]
    pipeline = load_pipeline(Settings(), cache=False)
    found = measure_keys(pipeline, items, tmp_path / "state", attempts=2, others=2)
    assert found["accepted"] == found["verified_with_the_registered_key"] == 2
    assert found["other_keys"] == 8
    assert found["all_distinct"]
    with pytest.raises(EvaluationError, match="do not complete"):
        measure_keys(pipeline, items[:1], tmp_path / "other", attempts=1)


def test_the_page_says_what_is_missing() -> None:
    part = {"eer": 0.031, "ci95": [0.02, 0.04], "n_target": 385, "n_nontarget": 3850, "thresholds": {}}
    report = {"cards": [], "measures": {"verification-3s": {"command": "python x", "result": part}}}
    text = page(json.loads(json.dumps(report)))
    assert "| 3.10 % | 2.00 - 4.00 | 385 / 3850 |" in text
    assert "not measured" in text
    assert "python x" in text
