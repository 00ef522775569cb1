"""Decided trials at every operating point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.evaluation.deciding import REFUSED, Verdict
from tools.evaluation.decision import UNTARGETED, summarise
from tools.evaluation.points import Point, at_points, point_rows
from tools.train.data.corpus import Item
from voiceid.types import Outcome

POINTS = {
    "convenience": Point((0.0, 0.0, 0.0, -1.0), 0.3),
    "balanced": Point((1.0, 0.0, 0.0, 0.0), 0.5),
    "strict": Point((2.0, 1.0, 0.0, 1.0), 0.9),
}


def verdict(identity: float, consistency: float, fused: float, speaker: str = "a") -> Verdict:
    """Of perfect spoofing and liveness scores, decided at the balanced point."""
    accepted = identity >= 1 and consistency >= 0 and fused >= 0.5
    outcome = Outcome.ACCEPTED if accepted else Outcome.REJECTED
    score = fused if identity >= 1 and consistency >= 0 else REFUSED
    return Verdict(speaker, outcome, score, (identity, 5.0, 5.0, consistency), (), fused)


VERDICTS = [
    verdict(3, 3, 0.95),
    verdict(1.5, 0.5, 0.8),
    verdict(0.5, -2, 0.1, "b"),
    verdict(2.5, -0.5, 0.95),
    verdict(2.5, 0.5, 0.95),
    Verdict("a", Outcome.INCONCLUSIVE, REFUSED, (), ()),
]
KINDS = np.array(["target", "target", "nontarget", "splice", "splice", "splice"])


def test_each_point_has_its_rates() -> None:
    found = at_points(VERDICTS, KINDS, POINTS)
    assert [found[p]["frr"]["rate"] for p in POINTS] == [0, 0, 0.5]
    assert [found[p]["far"]["rate"] for p in POINTS] == [0, 0, 0]
    assert [found[p]["iapar"]["splice"]["rate"] for p in POINTS] == [1, 0.5, 0]
    caught = [found[p]["splices_caught"] for p in POINTS]
    assert [c["consistency"]["rate"] for c in caught] == [0, 0.5, 1]
    assert [c["decision"]["rate"] for c in caught] == [0, 0.5, 1]
    assert [c["identity"]["rate"] for c in caught] == [0, 0, 0]
    assert caught[0]["decision"]["n"] == 2, "the inconclusive one is no trial"


def test_rows_for_a_table() -> None:
    rows = {row[0]: row[1:] for row in point_rows(at_points(VERDICTS, KINDS, POINTS))}
    assert rows["FRR"] == ["0.00 %", "0.00 %", "50.00 %"]
    assert rows["splices caught by consistency"] == ["0.00 %", "50.00 %", "100.00 %"]
    without = at_points(VERDICTS[:3], KINDS[:3], POINTS)
    assert "splices_caught" not in without["strict"]
    assert [row[0] for row in point_rows(without)] == ["FRR", "FAR"]
    assert point_rows({}) == []


def test_the_decided_point_agrees_with_the_decision() -> None:
    items = [_item("a", "bonafide"), _item("a", "bonafide"), _item("a", "bonafide"), *[_item("a", "splice")] * 3]
    trials = list(zip(items, VERDICTS, strict=True))
    stray = _item("nobody", "tts")
    result = summarise([*trials, (stray, verdict(0, 0, 0.1))], {stray}, "balanced", POINTS)
    at = result["points"]["balanced"]
    assert (at["frr"], at["far"]) == (result["rates"]["frr"], result["rates"]["far"])
    assert at["iapar"] == result["rates"]["iapar"]
    assert set(at["iapar"]) == {"splice", f"tts{UNTARGETED}"}
    assert result["a_dcf"] == pytest.approx(20 * 0.05 * 0.5 / 0.9)


def _item(speaker: str, kind: str) -> Item:
    return Item(Path(f"{kind}.flac"), kind, speaker, "", kind, "", 3.0, "A", "")
