"""Error rates with counts and intervals as plain dictionaries, tables on the terminal, and one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.det import MIN_TRIALS, thin_curve
from tools.output import write_text
from tools.train import metrics
from voiceid.models.card import Card

Floats = NDArray[np.float64]
SCHEMA = 1
NUMBERS = re.compile(r"\[\n[-+\d.e,\s]+\]")
MAX_SUBGROUPS = 60
"""Notes may be as many as clips: only the most frequent are reported."""


def detection(
    positives: Sequence[float] | Floats,
    negatives: Sequence[float] | Floats,
    groups: tuple[Sequence[str], Sequence[str]],
    names: tuple[str, str],
) -> dict[str, Any]:
    """EER with its 95 % interval (bootstrap over groups), trial counts, and the curve where trials suffice for one.

    With one class only, ``eer`` and ``ci95`` are None and ``reason`` says so.
    """
    pos, neg = np.asarray(positives, float), np.asarray(negatives, float)
    counts = {f"n_{name}": int(scores.size) for name, scores in zip(names, (pos, neg), strict=True)}
    if not (pos.size and neg.size):
        empty = names[0] if not pos.size else names[1]
        return {"eer": None, "ci95": None, "reason": f"no {empty} trials", **counts}
    value = metrics.eer(pos, neg)
    (low, high), over = confidence(metrics.eer, (pos, neg), groups)
    if value == 0:  # no bootstrap can show errors where there were none: the rule of three can
        high = max(high, min(1.0, 3 / min(pos.size, neg.size)))
    result = {"eer": value, "ci95": [low, high], "ci95_over": over, **counts}
    if min(pos.size, neg.size) >= MIN_TRIALS:
        result["curve"] = thin_curve(pos, neg)
    return result


def confidence(
    metric: Callable[..., float], classes: Sequence[Floats], groups: Sequence[Sequence[str]]
) -> tuple[list[float], str]:
    """Bootstrap interval over groups; over trials where fewer than 4 groups would make it meaningless."""
    size = sum(c.size for c in classes)
    rounds = 500 if size < 30_000 else 200 if size < 300_000 else 50
    few = any(len(set(g)) < 4 for g in groups) and len(set().union(*map(set, groups))) < 8
    low, high = metrics.bootstrap_ci(metric, classes, None if few else groups, rounds=rounds)
    return [low, high], "trials" if few else "speakers"


def rate(errors: int, trials: int) -> dict[str, Any]:
    """A rate with Wilson's 95 % interval; None without trials."""
    if not trials:
        return {"rate": None, "n": 0, "ci95": None, "reason": "no trials"}
    return {
        "rate": errors / trials,
        "errors": errors,
        "n": trials,
        "ci95": list(metrics.wilson_interval(errors, trials)),
    }


def partition(keys: Sequence[Hashable], *, most: int = MAX_SUBGROUPS) -> dict[str, NDArray[np.intp]]:
    """Indices of every distinct key but '', the most frequent first."""
    members: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        if key != "":
            members.setdefault(str(key), []).append(i)
    ordered = sorted(members.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:most]
    return {key: np.array(indices) for key, indices in ordered}


def card_summary(card: Card) -> dict[str, Any]:
    """Which model was measured."""
    return {
        "name": card.name,
        "version": card.version,
        "sha256": card.sha256,
        "parameters": card.metrics.get("parameters"),
    }


def write_json(path: Path | None, result: Mapping[str, Any]) -> None:
    """Write ``result`` (if a path is given), creating its folder."""
    if path is not None:
        write_text(path, as_json({"schema": SCHEMA, **result}))


def as_json(value: Mapping[str, Any]) -> str:
    """JSON with lists of numbers on one line each.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return NUMBERS.sub(lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def interval(values: Sequence[float] | None) -> str:
    return "" if values is None else f"{100 * values[0]:.2f} - {100 * values[1]:.2f} %"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned, the first to the left."""
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [headers, ["-" * w for w in widths], *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)


def detection_table(result: Mapping[str, Any], names: tuple[str, str]) -> str:
    """The overall figure, those under ``by`` and those of ``conditions``."""
    rows = [["all", *_cells(result, names)]]
    for kind, parts in result.get("by", {}).items():
        rows += [[f"{kind}: {name}"[:60], *_cells(part, names)] for name, part in parts.items()]
    rows += [[name, *_cells(part, names)] for name, part in result.get("conditions", {}).items()]
    return table(["", "EER", "95 % interval", *(f"n {name}" for name in names)], rows)


def _cells(part: Mapping[str, Any], names: tuple[str, str]) -> list[str]:
    return [percent(part["eer"]), interval(part["ci95"]), *(str(part[f"n_{name}"]) for name in names)]
