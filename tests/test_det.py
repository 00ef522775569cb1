"""``tools/evaluation/det.py``: points of curves, and pictures of them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from tools.evaluation import det
from tools.evaluation.options import EvaluationError
from tools.evaluation.report import as_json, detection
from tools.train.metrics import eer, operating_curve

NAMES = ("target", "nontarget")


def scores(genuine: int, others: int, *, distance: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(genuine)
    return rng.normal(distance, 1, genuine), rng.normal(0, 1, others)


def part(genuine: int, others: int, **options: float) -> dict:
    columns = scores(genuine, others, **options)
    groups = (["a"] * genuine, ["b"] * others)
    return detection(*columns, groups, NAMES)


def test_a_thin_curve_lies_on_the_whole_one() -> None:
    genuine, others = scores(5_000, 20_000)
    thin = det.thin_curve(genuine, others)
    assert thin["trials"] == [5_000, 20_000]
    x, y = np.array(thin["false_alarm"]), np.array(thin["miss"])
    assert 100 < len(x) == len(y) <= det.MAX_POINTS
    assert (x[0], y[0], x[-1], y[-1]) == (1, 0, 0, 1)
    assert (np.diff(x) <= 0).all()
    assert (np.diff(y) >= 0).all()
    whole = operating_curve(genuine, others)
    points = set(zip(whole.false_alarm.round(5), whole.miss.round(5), strict=True))
    assert points >= set(zip(x, y, strict=True))
    crossing = np.interp(0, y - x, (x + y) / 2)
    assert crossing == pytest.approx(eer(genuine, others), abs=1e-3)


def test_few_scores_keep_their_corners_only() -> None:
    assert det.thin_curve(np.array([3.0, 4.0, 5.0]), np.array([0.0, 1.0, 2.0])) == {
        "trials": [3, 3],
        "false_alarm": [1.0, 0.0, 0.0],
        "miss": [0.0, 0.0, 1.0],
    }


def test_curves_need_trials_and_come_once() -> None:
    whole = part(60, 90)
    by = {"kind": {"same": whole, "other": part(40, 40)}, "set": {"few": part(29, 90)}}
    result = {**whole, "by": by, "conditions": {"2s": part(35, 50)}}
    found = list(det.curves(result))
    assert [(curve.label, curve.trials) for curve in found] == [
        ("all", (60, 90)),
        ("kind: other", (40, 40)),
        ("2s", (35, 50)),
    ]
    assert "curve" not in by["set"]["few"]
    assert next(det.curves(json.loads(as_json(result)), "3 s")).label == "3 s"


def test_operating_points_of_both_forms() -> None:
    verification = {**part(40, 40), "thresholds": {"strict": {"frr": 0.25, "far": 0.1}}}
    attacks = {**part(40, 40), "thresholds": {"strict": {"bpcer": {"rate": 0.25}, "apcer": {"rate": 0.1}}}}
    for result in (verification, attacks):
        assert next(det.curves(result)).points == {"strict": (0.1, 0.25)}


def test_pictures_tell_curves_rates_and_points(tmp_path: Path) -> None:
    result = {"command": "verification", **part(60, 90), "thresholds": {"balanced": {"frr": 0.2, "far": 0.1}}, "by": {}}
    (tmp_path / "result.json").write_text(as_json(result))
    picture, again = tmp_path / "new" / "a.svg", tmp_path / "b.svg"
    det.draw_result(picture, result)
    assert det.main([str(tmp_path / "result.json"), str(again)]) == 0
    assert picture.read_bytes() == again.read_bytes()
    text = picture.read_text()
    for said in (f"EER {100 * result['eer']:.1f} % (60 / 90)", "balanced point of all", "owners refused (FRR)"):
        assert said in text
    det.draw_result(tmp_path / "a.png", result)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_no_curve_and_no_picture_say_so(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="30 trials of each class"):
        det.draw_result(tmp_path / "a.svg", {"command": "verification", **part(20, 90)})
    with pytest.raises(argparse.ArgumentTypeError, match=r"a.txt cannot be written as .txt; use .png or .svg or .pdf"):
        det.picture("a.txt")


def test_lists_of_numbers_stand_on_one_line() -> None:
    value = {"a": [1, -2.5, 1e-7], "b": [], "c": ["1,\n 2"], "d": [[1, 2], [3, 4]], "e": {"f": [0.5]}}
    text = as_json(value)
    assert json.loads(text) == value
    assert '"a": [1, -2.5, 1e-07]' in text
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"a": float("nan")})
