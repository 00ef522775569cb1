"""Presentation attack detection: bona fide speech against attacks, by one judge's score (ISO/IEC 30107-3 rates)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.groups import family
from tools.evaluation.judging import Asking, Judge, load_judge
from tools.evaluation.options import Options
from tools.evaluation.parallel import Account, each
from tools.evaluation.report import card_summary, detection, detection_table, partition, percent, rate, table
from tools.evaluation.selection import choose, identifier, limited, system
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.models.card import Card

NAMES = ("bonafide", "spoof")
SYNTHESIS = ("tts", "vc", "vocoder")
OWN_BONAFIDE = 10
"""A set with at least this many bona fide clips is measured against its own, else against all."""
BPCERS = (0.01, 0.05)
FAMILY_CLIPS = 30
"""Clips from which on a family of attacks is compared with others."""
FAMILY_BPCER = "0.05"


def measure(role: Judge, kinds: Sequence[str], options: Options) -> tuple[dict[str, Any], str, Account]:
    """Score every chosen file with the judge; returns the result, its table, and the account of files."""
    items = limited(choose(options, kinds), options)
    account = Account()
    scored = each(Asking.of(role, options), items, jobs=options.jobs, account=account, label=role)
    card: Card = load_judge(role, options.card, cache=False).card
    used = [item for item, _ in scored]
    scores = np.array([float(vector[0]) for _, vector in scored])
    result = {"command": role, "card": card_summary(card), **summarise(used, scores, card)}
    return result, describe(result), account


def summarise(items: Sequence[Item], scores: NDArray[np.float64], card: Card) -> dict[str, Any]:
    """The figures over all, and by attack kind, set and system; ``scores`` (n,) are raw."""
    bonafide = np.array([item.kind == "bonafide" for item in items])
    groups = np.array([item.speaker or identifier(item) for item in items])
    everyone = np.flatnonzero(bonafide)
    result = _part(scores, groups, everyone, np.flatnonzero(~bonafide), card)
    by: dict[str, dict[str, Any]] = {"kind": {}, "vocoder": {}, "family": {}, "set": {}, "note": {}}
    for kind, rows in partition([item.kind for item in items]).items():
        if kind != "bonafide":
            by["kind"][kind] = _part(scores, groups, everyone, rows, card)
    kinship = {True: "of a kind in training", False: "of no kind in training"}
    for name, rows in partition([kinship[i.related_vocoder] if i.kind in SYNTHESIS else "" for i in items]).items():
        if name:
            by["vocoder"][name] = _part(scores, groups, everyone, rows, card)
    for name, rows in partition([family(item) for item in items]).items():
        by["family"][name] = _part(scores, groups, everyone, rows, card)
    for name, rows in partition([item.set for item in items]).items():
        own, attacks = rows[bonafide[rows]], rows[~bonafide[rows]]
        enough = len(own) >= OWN_BONAFIDE or not len(attacks)
        part = _part(scores, groups, own if enough else everyone, attacks, card)
        by["set"][name] = part | {"bonafide_from": "this set" if enough else "all sets"}
    for note, rows in partition(["" if item.kind == "bonafide" else system(item) for item in items]).items():
        by["note"][note] = _part(scores, groups, everyone, rows, card)
    result["by"] = by
    result["worst_family"] = _worst(by["family"])
    return result


def _worst(families: dict[str, Any]) -> dict[str, Any] | None:
    """The family of at least :data:`FAMILY_CLIPS` attacks that is most accepted at a BPCER of 5 %."""
    compared = {n: p for n, p in families.items() if p["n_spoof"] >= FAMILY_CLIPS and "apcer_at_bpcer" in p}
    if not compared:
        return None
    name = max(compared, key=lambda name: compared[name]["apcer_at_bpcer"][FAMILY_BPCER])
    clips, apcer = compared[name]["n_spoof"], compared[name]["apcer_at_bpcer"][FAMILY_BPCER]
    return {"family": name, "compared": len(compared), "apcer": rate(round(apcer * clips), clips)}


def _part(
    scores: NDArray[np.float64], groups: NDArray[np.str_], own: NDArray[Any], attacks: NDArray[Any], card: Card
) -> dict[str, Any]:
    genuine, spoof = scores[own], scores[attacks]
    part = detection(genuine, spoof, (list(groups[own]), list(groups[attacks])), NAMES)
    if card.calibration is not None:
        scale, offset = card.calibration.scale, card.calibration.offset
        part["thresholds"] = {
            point: {
                "bpcer": rate(int(np.sum(scale * genuine + offset < t.value)), genuine.size),
                "apcer": rate(int(np.sum(scale * spoof + offset >= t.value)), spoof.size),
            }
            for point, t in card.thresholds.items()
        }
        if genuine.size and spoof.size:
            part["cllr"] = metrics.cllr(scale * genuine + offset, scale * spoof + offset)
    if genuine.size and spoof.size:
        part["apcer_at_bpcer"] = {f"{b:g}": metrics.apcer_at_bpcer(genuine, spoof, b) for b in BPCERS}
    return part


def describe(result: dict[str, Any]) -> str:
    """EERs, then the rates at the card's thresholds and at fixed BPCER, by attack kind and system."""
    lines = [detection_table(result, NAMES), ""]
    rows = []
    parts = [("all", result)]
    for key in ("kind", "vocoder", "family", "note"):
        parts += [(f"{key}: {name}"[:60], part) for name, part in result["by"][key].items()]
    for label, part in parts:
        fixed = part.get("apcer_at_bpcer", {})
        points = [
            f"{percent(r['bpcer']['rate'])} / {percent(r['apcer']['rate'])}"
            for r in part.get("thresholds", {}).values()
        ]
        rows.append([label, *(percent(fixed.get(f"{b:g}")) for b in BPCERS), *points])
    points = [f"{p}: BPCER / APCER" for p in result.get("thresholds", {})]
    lines.append(table(["", *(f"APCER at BPCER {100 * b:g} %" for b in BPCERS), *points], rows))
    if worst := result["worst_family"]:
        lines.append(
            f"\nworst of {worst['compared']} families of at least {FAMILY_CLIPS} clips, at BPCER 5 %: "
            f"{worst['family']}, APCER {percent(worst['apcer']['rate'])} of {worst['apcer']['n']}"
        )
    return "\n".join(lines)
