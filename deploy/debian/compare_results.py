"""Compare what the agent says of the same recordings on two machines: ``compare_results.py HERE THERE``.

Either folder holds ``NAME.verify.json`` and ``NAME.units.json`` of each recording: what ``voiceid verify --json`` and
``voiceid units --json`` wrote. Exit status 1: an outcome differs, or a score by more than the tolerance.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any

TOLERANCE = 0.05
"""Log-likelihood ratio: far below what tells two takes of one sentence apart."""


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each recording."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("here", type=Path)
    parser.add_argument("there", type=Path)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="of a score (log-likelihood ratio)")
    options = parser.parse_args(arguments)
    names = {folder: {path.name for path in folder.glob("*.json")} for folder in (options.here, options.there)}
    if names[options.here] != names[options.there] or not names[options.here]:
        print(f"{options.here} and {options.there} do not hold results of the same recordings", file=sys.stderr)
        return 1
    worst, same = 0.0, True
    for name in sorted(name for name in names[options.here] if name.endswith(".verify.json")):
        here, there = (_read(folder / name) for folder in (options.here, options.there))
        apart = differences(here, there)
        alike = agreement(*(_read(folder / name.replace(".verify.", ".units.")) for folder in names))
        same = same and here["outcome"] == there["outcome"]
        worst = max([worst, *apart.values()])
        scores = ", ".join(f"{judge} {value:.1e}" for judge, value in apart.items())
        outcomes = f"{here['outcome']} / {there['outcome']}"
        print(f"{name.removesuffix('.verify.json')}: {outcomes}; {scores}; units {alike:.1%}")
    print(f"largest difference of a score: {worst:.2e}; outcomes {'the same' if same else 'DIFFER'}")
    return 0 if same and worst <= options.tolerance else 1


def differences(here: dict[str, Any], there: dict[str, Any]) -> dict[str, float]:
    """Of each judge's log-likelihood ratio, absolute; infinite where only one of both was judged at all."""
    one, other = _scores(here), _scores(there)
    return {
        judge: abs(one[judge] - other[judge]) if judge in one and judge in other else float("inf")
        for judge in sorted({*one, *other})
    }


def agreement(here: dict[str, Any], there: dict[str, Any]) -> float:
    """Share of units, merged runs as one, that both have in the same order."""
    return difflib.SequenceMatcher(None, here["units"], there["units"], autojunk=False).ratio()


def _scores(decision: dict[str, Any]) -> dict[str, float]:
    evidence = decision["evidence"] or {}
    return {judge: score["llr"] for judge, score in evidence.items() if isinstance(score, dict) and "llr" in score}


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


if __name__ == "__main__":
    sys.exit(main())
