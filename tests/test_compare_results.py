"""Holding what two machines say of the same recordings against each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "deploy" / "debian" / "compare_results.py"


def write(
    folder: Path, *, outcome: str = "accepted", identity: float | None = 6.5, units: tuple[int, ...] = (1, 2, 3, 4)
):
    folder.mkdir()
    evidence = None if identity is None else {"identity": {"llr": identity}, "windows": []}
    (folder / "a.verify.json").write_text(json.dumps({"outcome": outcome, "evidence": evidence}), "utf-8")
    (folder / "a.units.json").write_text(json.dumps({"units": units}), "utf-8")
    return folder


def compare(*folders: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *folders], capture_output=True, text=True, check=False)


def test_small_differences_and_other_units_are_told_but_no_fault(tmp_path):
    run = compare(write(tmp_path / "here"), write(tmp_path / "there", identity=6.51, units=(1, 2, 3, 5)))
    assert run.returncode == 0, run.stderr
    assert "a: accepted / accepted; identity 1.0e-02; units 75.0%" in run.stdout


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"outcome": "spoof"}, "outcomes DIFFER"),
        ({"identity": 6.6}, "score: 1.00e-01"),
        ({"identity": None}, "score: inf"),
    ],
)
def test_another_outcome_or_score_is_a_fault(tmp_path, other, said):
    run = compare(write(tmp_path / "here"), write(tmp_path / "there", **other))
    assert run.returncode == 1
    assert said in run.stdout


def test_results_of_other_recordings_cannot_be_compared(tmp_path):
    (tmp_path / "there").mkdir()
    run = compare(write(tmp_path / "here"), tmp_path / "there")
    assert run.returncode == 1 and "same recordings" in run.stderr
