"""Tables of runs, the study's own and those of ``sweep``: reading, averages by size, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from tools.studies.errors import StudyError
from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.layouts import read_table

COLUMNS = ("experiment", "num_train", "num_test", "num_overlap", "test_type", "mindcf_confusion", "mindcf_threshold")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: numbers of known, unknown and overlapping speakers, the task of the unknown, and what came of it.

    ``limited`` counts the best matches only, as many as speakers overlap; ``cells`` is the whole line.
    """

    experiment: str
    known: int
    unknown: int
    overlap: int
    task: str
    counts: Counts
    threshold: float
    limited: Counts | None
    cells: dict[str, str]

    @property
    def comparisons(self) -> int:
        return self.known * self.unknown


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r of two columns with its two-sided p over ``runs`` runs."""

    r: float
    p: float
    runs: int


def read_runs(path: Path) -> list[Run]:
    """The runs of a table with the study's columns.

    Raises:
        StudyError: missing columns, or values that are not what they should be, by line.
    """
    runs = []
    for number, row in enumerate(read_table(path, COLUMNS), 2):
        try:
            limited = row.get("known_confusion", "")
            runs.append(
                Run(
                    row["experiment"],
                    int(row["num_train"]),
                    int(row["num_test"]),
                    int(row["num_overlap"]),
                    row["test_type"],
                    Counts.parse(row["mindcf_confusion"]),
                    float(row["mindcf_threshold"]),
                    Counts.parse(limited) if limited else None,
                    row,
                )
            )
        except (ValueError, StudyError) as error:
            raise StudyError(f"{path}, run {number - 1}: {error}") from error
    return runs


def select(runs: Sequence[Run], *experiments: str, comparisons: Sequence[int] | None = None) -> list[Run]:
    """Runs of the named experiments, and of the named numbers of comparisons only."""
    return [
        run for run in runs if run.experiment in experiments and (comparisons is None or run.comparisons in comparisons)
    ]


def correlate(runs: Sequence[Run], x: Callable[[Run], float], y: Callable[[Run], float]) -> Correlation:
    """Pearson's correlation; NaN where there are fewer than three runs or one of the two is constant."""
    pairs = np.array([(x(run), y(run)) for run in runs], np.float64).reshape(-1, 2)
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return Correlation(math.nan, math.nan, len(pairs))
    found = stats.pearsonr(pairs[:, 0], pairs[:, 1])
    return Correlation(float(found.statistic), float(found.pvalue), len(pairs))


def averages(runs: Sequence[Run], key: Callable[[Run], Any] = lambda run: run.comparisons) -> dict[Any, dict[str, Any]]:
    """By ``key``: number of runs, mean true and false acceptances, their ratio, and the mean threshold."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return {name: _average(groups[name]) for name in sorted(groups)}


def _average(runs: Sequence[Run]) -> dict[str, Any]:
    true = float(np.mean([run.counts.true_acceptances for run in runs]))
    false = float(np.mean([run.counts.false_acceptances for run in runs]))
    return {
        "runs": len(runs),
        "TA": true,
        "FA": false,
        "FA/TA": false / true if true else math.nan,
        "threshold": float(np.mean([run.threshold for run in runs])),
    }
