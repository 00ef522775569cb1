"""One set of decided trials at every operating point of the cards: what a decision would have been there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.deciding import GATES, SPLICE, Verdict
from tools.evaluation.report import percent, rate
from voiceid.models.card import OPERATING_POINTS
from voiceid.scoring.judges import Judges

Passes = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Point:
    """The least llr that each of :data:`GATES` lets pass, and the least fused probability."""

    gates: tuple[float, ...]
    voiceid: float


def points_of(judges: Judges, *, absolute: bool = False) -> dict[str, Point]:
    """The operating points that all cards of ``judges`` have, for detectors that judge relative to the owner where they
    can; with ``absolute`` for those that never do.
    """
    cards = {gate: getattr(judges, gate).card.thresholds for gate in GATES if gate != "consistency"}
    if not absolute:
        detectors = {gate: getattr(judges, gate).owner for gate in ("spoofing", "liveness")}
        cards |= {gate: owner.thresholds for gate, owner in detectors.items() if owner}
    gates = cards | {"consistency": judges.consistency.thresholds}
    fused = judges.fusion.card.thresholds
    return {
        point: Point(tuple(gates[gate][point].value for gate in GATES), fused[point].value)
        for point in OPERATING_POINTS
        if all(point in thresholds for thresholds in (*gates.values(), fused))
    }


def at_points(verdicts: Sequence[Verdict], kinds: NDArray[np.str_], points: dict[str, Point]) -> dict[str, Any]:
    """By operating point: FRR, FAR and IAPAR of conclusive trials, and who caught the splices.

    ``kinds`` (n,) are 'target', 'nontarget' or the species of attack. ``splices_caught`` has each gate alone, the fused
    score alone, and the whole ``decision``.
    """
    heard = [i for i, verdict in enumerate(verdicts) if verdict.conclusive]
    llr = np.array([verdicts[i].llr for i in heard], float).reshape(-1, len(GATES))
    fused = np.array([verdicts[i].voiceid for i in heard], float)
    kinds = kinds[heard]
    species = sorted(set(kinds) - {"target", "nontarget"})
    result: dict[str, Any] = {}
    for name, point in points.items():
        passes = {gate: llr[:, i] >= point.gates[i] for i, gate in enumerate(GATES)}
        passes["voiceid"] = fused >= point.voiceid
        accepted = np.all(list(passes.values()), axis=0)
        result[name] = {
            "frr": _share(~accepted, kinds == "target"),
            "far": _share(accepted, kinds == "nontarget"),
            "iapar": {kind: _share(accepted, kinds == kind) for kind in species},
        }
        if SPLICE in species:
            caught = {gate: _share(~passed, kinds == SPLICE) for gate, passed in passes.items()}
            result[name]["splices_caught"] = caught | {"decision": _share(~accepted, kinds == SPLICE)}
    return result


def _share(event: Passes, rows: Passes) -> dict[str, Any]:
    return rate(int(event[rows].sum()), int(rows.sum()))


def point_rows(points: dict[str, Any]) -> list[list[str]]:
    """A row for every rate: its label, then its value at every operating point, for a table."""
    flat = [
        {"FRR": at["frr"], "FAR": at["far"]}
        | {f"IAPAR {kind}": part for kind, part in at["iapar"].items()}
        | {f"splices caught by {judge}": part for judge, part in at.get("splices_caught", {}).items()}
        for at in points.values()
    ]
    return [[label, *(percent(at[label]["rate"]) for at in flat)] for label in (flat[0] if flat else {})]
