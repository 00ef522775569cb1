"""``tools/report.py``: the page and the figures of measures that were made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_points import KINDS, POINTS, VERDICTS

from tools import report
from tools.evaluation.points import at_points
from tools.evaluation.report import detection, rate
from tools.evaluation.report_page import page

SHIPPED = report.REPOSITORY / "docs" / "reports" / "v1.json"


def measured(command: str, names: tuple[str, str], **more: object) -> dict:
    rng = np.random.default_rng(len(command))
    columns = rng.normal(2, 1, 50), rng.normal(0, 1, 60)
    part = detection(*columns, (["a"] * 50, ["b"] * 60), names)
    return {"command": f"evaluate {command}", "result": {"command": command, **part, "by": {}, **more}}


def verification(**more: object) -> dict:
    return measured("verification", ("target", "nontarget"), **more)


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_figures_of_what_was_measured(tmp_path: Path) -> None:
    results = {"verification-3s": verification(), "verification-noise": verification()}
    assert report.draw_figures(results, tmp_path) == ["det-identity.svg"]
    assert [path.name for path in tmp_path.iterdir()] == ["det-identity.svg"]
    text = (tmp_path / "det-identity.svg").read_text()
    assert "3 s in noise at 10 dB: EER" in text
    assert "2 s: EER" not in text
    assert report.draw_figures({}, tmp_path) == []


def test_the_page_shows_groups_teachers_families_and_points() -> None:
    part = verification()["result"]
    teachers = {"condition": {"seconds": 3.0}, "embedders": {}}
    for name, cpu in (("identity", 10.0), ("campplus", 40.0)):
        teachers["embedders"][name] = {"cosine": part, "cpu_ms_per_second": cpu}
    teachers["embedders"]["identity"]["as_shipped"] = part
    worst = {"family": "VITS", "compared": 2, "apcer": rate(3, 30)}
    measures = {
        "verification-full": verification(conditions={"3s@0dB": part}),
        "verification-all": verification(by={"set": {"mls": part}, "sex": {}}, not_told=["sex"]),
        "teachers": {"command": "evaluate teachers", "result": teachers},
        "spoofing": measured("spoofing", ("bonafide", "spoof"), worst_family=worst),
        "decision": {"command": "evaluate decision", "result": decision()},
    }
    measures["spoofing"]["result"]["by"] = {"kind": {}, "vocoder": {}, "note": {}, "family": {"VITS": _attacks()}}
    text = page({"cards": [], "measures": measures}, ["det-identity.svg"])
    found = {row[0]: row[1:] for row in rows(text)}
    assert found["3s@0dB"][-1] == found["set: mls"][-1] == "50 / 60"
    assert "Neither the index nor its notes tell: sex." in text
    assert found["campplus, cosine"][-1] == "40.0 ms"
    assert "identity, as shipped" in found
    assert found["CPU of identity a second of speech to CAM++'s"][1] == "0.25"
    assert found["CPU of identity a second of speech to Resemblyzer's"][1] == "not measured"
    assert found["worst family of at least 30 clips: APCER at BPCER 5 %"][1:] == [
        "10.00 % (VITS)",
        "3.46 - 25.62",
        "30",
    ]
    assert "family: VITS" in found
    assert found["spliced commands caught, balanced"][1] == "50.00 %"
    assert found["splices caught by consistency"] == ["0.00 %", "50.00 %", "100.00 %"]
    assert found["worst species aimed at the owner: IAPAR, balanced"][1] == "50.00 % (splice)"
    assert "![det identity](det-identity.svg)" in text


def _attacks() -> dict:
    return detection([3.0, 4, 5, 6], [0.0, 1, 2, 3], (list("abcd"), list("efgh")), ("bonafide", "spoof"))


def decision() -> dict:
    rates = {"frr": rate(1, 10), "far": rate(0, 20)}
    iapar = {"splice": rate(5, 10), "tts (not aimed)": rate(9, 10), "vc": rate(0, 0)}
    return {
        "rates": {**rates, "iapar": iapar},
        "frr_by_gate": {},
        "inconclusive": {},
        "a_dcf": None,
        "n_speakers": 3,
        "operating_point": "balanced",
        "points": at_points(VERDICTS, KINDS, POINTS),
    }


def test_a_page_of_earlier_measures_says_what_is_missing() -> None:
    if not SHIPPED.is_file():
        pytest.skip("no report is shipped")
    text = page(json.loads(SHIPPED.read_text("utf-8")))
    assert "![" not in text
    empty = page({"cards": [], "measures": {}})
    assert {row[2] for row in rows(empty)[4:]} == {"not measured"}
