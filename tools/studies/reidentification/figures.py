"""The study's figures, drawn from tables of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.studies.reidentification.check import KNOWN, SEARCH_SPACES, UNKNOWN
from tools.studies.reidentification.tables import Run, correlate, select

GREEN, RED, BLACK = "#009E73", "#D55E00", "#000000"
"""True acceptances, false acceptances, rates."""
FULL_KNOWN, FULL_UNKNOWN, FIXED_UNKNOWN = "full-train-1", "full-test-1", "train-1-orig"
CROSS, WITHIN = "across-default", "within-default"
TASK_NAMES = {"s-physician": "sentences", "grandfather": "reading", "w": "word"}
Value = Callable[[Run], float]


def figure_2(runs: Sequence[Run]) -> Figure | None:
    """Acceptances by known speakers, by unknown speakers, and by comparisons."""
    known, unknown = select(runs, KNOWN), select(runs, UNKNOWN)
    if not known and not unknown:
        return None
    figure, (a, b, c, rest) = _axes(2, 2)
    rest.axis("off")
    _acceptances(a, known, _known, "# Known Speakers", "Known Set: Total Acceptances", tag="a")
    _acceptances(b, unknown, _unknown, "# Unknown Speakers", "Unknown Set: Total Acceptances", tag="b")
    _acceptances(c, _searched(runs), _comparisons, "# Comparisons", "Search Space: Total Acceptances", tag="c")
    return figure


def figure_3(runs: Sequence[Run]) -> Figure | None:
    """Precision and false acceptance rate by comparisons."""
    chosen = _searched(runs)
    if not chosen:
        return None
    figure, (a, b) = _axes(1, 2)
    _rate(a, chosen, _comparisons, _precision, "# Comparisons", "Precision", tag="a")
    _rate(b, chosen, _comparisons, _false_rate, "# Comparisons", "False Acceptance Rate", tag="b")
    return figure


def figure_4(runs: Sequence[Run]) -> Figure | None:
    """Worst cases: the overlap is known (best matches only), and all unknown speakers are known."""
    limited = [replace(run, counts=run.limited) for run in _searched(runs) if run.limited is not None]
    full = _searched(runs, FULL_KNOWN, FULL_UNKNOWN)
    if not limited and not full:
        return None
    figure, (a, b, c, d) = _axes(2, 2)
    _acceptances(a, limited, _comparisons, "# Comparisons", "Known Overlap: Acceptances", tag="a")
    _rate(b, limited, _comparisons, _precision, "# Comparisons", "Known Overlap: Precision", tag="b")
    _acceptances(c, full, _comparisons, "# Comparisons", "Full Overlap: False Acceptances", tag="c", true=False)
    _acceptances(d, full, _comparisons, "# Comparisons", "Full Overlap: True Acceptances", tag="d", false=False)
    return figure


def figure_5(runs: Sequence[Run]) -> Figure | None:
    """Speech tasks: across (the known speak sentences) and within."""
    if not select(runs, CROSS, WITHIN):
        return None
    figure, axes = _axes(2, 2)
    for name, title, (left, right), tags in (
        (CROSS, "Cross-Task", axes[:2], "ab"),
        (WITHIN, "Within-Task", axes[2:], "cd"),
    ):
        chosen = select(runs, name)
        tasks = sorted({run.task for run in chosen}, key=lambda task: -_mean_precision(chosen, task))
        at = _Places(tasks)
        labels = [TASK_NAMES.get(task, task) for task in tasks]
        _acceptances(left, chosen, at, "Task", f"{title}: Acceptances", tag=tags[0], labels=labels)
        _rate(right, chosen, at, _precision, "Task", f"{title}: Precision", tag=tags[1], labels=labels)
    return figure


def figure_s1(runs: Sequence[Run]) -> Figure | None:
    """The known set grows, the unknown speakers stay the same but for those who overlap."""
    chosen = select(runs, FIXED_UNKNOWN)
    if not chosen:
        return None
    figure, (a, b, c, rest) = _axes(2, 2)
    rest.axis("off")
    _acceptances(a, chosen, _known, "# Known Speakers", "Fixed Unknown Set: Acceptances", tag="a")
    _rate(b, chosen, _known, _precision, "# Known Speakers", "Precision", tag="b")
    _rate(c, chosen, _known, _false_rate, "# Known Speakers", "False Acceptance Rate", tag="c")
    return figure


FIGURES: dict[str, Callable[[Sequence[Run]], Figure | None]] = {
    "figure2": figure_2,
    "figure3": figure_3,
    "figure4": figure_4,
    "figure5": figure_5,
    "supplementary1": figure_s1,
}


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each task stands."""

    tasks: Sequence[str]

    def __call__(self, run: Run) -> float:
        return self.tasks.index(run.task)


def _known(run: Run) -> float:
    return run.known


def _unknown(run: Run) -> float:
    return run.unknown


def _comparisons(run: Run) -> float:
    return run.comparisons


def _true(run: Run) -> float:
    return run.counts.true_acceptances


def _false(run: Run) -> float:
    return run.counts.false_acceptances


def _precision(run: Run) -> float:
    return run.counts.precision


def _false_rate(run: Run) -> float:
    return run.counts.false_acceptance_rate


def _searched(runs: Sequence[Run], *experiments: str) -> list[Run]:
    """The runs of the paper's plots by comparisons; of tables with other sizes, all."""
    chosen = select(runs, *(experiments or (KNOWN, UNKNOWN)))
    shown = [run for run in chosen if run.comparisons in SEARCH_SPACES]
    return shown or chosen


def _mean_precision(runs: Sequence[Run], task: str) -> float:
    values = [run.counts.precision for run in runs if run.task == task]
    return float(np.mean([0.0 if math.isnan(value) else value for value in values]))


def _axes(rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(5 * columns, 5 * rows), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(rows, columns)).ravel())


def _acceptances(
    axes: Axes,
    runs: Sequence[Run],
    x: Value,
    label: str,
    title: str,
    *,
    tag: str,
    labels: Sequence[str] | None = None,
    true: bool = True,
    false: bool = True,
) -> None:
    """Circles and mean lines of acceptances, and how false ones go with ``x`` where that is a number."""
    width = _frame(axes, runs, x, label, title, tag, labels)
    series = [(_false, RED, "FA")] * false + [(_true, GREEN, "TA")] * true
    for i, (y, colour, name) in enumerate(series):
        _circles(axes, runs, x, y, colour, width, (i - (len(series) - 1) / 2) * width, name)
    axes.set_ylabel("N")
    top = max(1.0, axes.get_ylim()[1])
    axes.set_ylim(-0.05 * top, top)
    if runs:
        axes.legend(frameon=False, loc="upper right")
    found = correlate(runs, x, _false)
    if false and labels is None and not math.isnan(found.r):
        text = f"FA ~ {label.removeprefix('# ').lower()}\nr = {found.r:.4g}, p = {found.p:.3g}, {found.runs} runs"
        axes.text(0.02, 0.98, text, transform=axes.transAxes, va="top", fontsize=8)


def _rate(
    axes: Axes,
    runs: Sequence[Run],
    x: Value,
    y: Value,
    label: str,
    title: str,
    *,
    tag: str,
    labels: Sequence[str] | None = None,
) -> None:
    """Circles and mean lines of a rate; runs where it is undefined are left out."""
    width = _frame(axes, runs, x, label, title, tag, labels)
    _circles(axes, [run for run in runs if not math.isnan(y(run))], x, y, BLACK, width, 0.0, "")
    if y is _precision:
        axes.set(ylabel="TA / (TA + FA)", ylim=(-0.05, 1.1))
    else:
        axes.set_ylabel("FA / comparisons of different people")


def _frame(
    axes: Axes, runs: Sequence[Run], x: Value, label: str, title: str, tag: str, labels: Sequence[str] | None
) -> float:
    """Ticks and titles; returns the width of a group of circles."""
    places = sorted({x(run) for run in runs})
    axes.set_xticks(places, labels if labels is not None else [f"{place:,.0f}" for place in places], rotation=45)
    axes.set_title(f"{title}\nminDCF threshold", fontsize=10)
    axes.set_title(f"({tag})", loc="left", fontweight="bold")
    axes.set_xlabel(label)
    axes.margins(y=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    return 0.07 * (places[-1] - places[0] or 1.0) if places else 1.0


def _circles(
    axes: Axes, runs: Sequence[Run], x: Value, y: Value, colour: str, width: float, shift: float, name: str
) -> None:
    rng = np.random.default_rng(0)
    groups: dict[float, list[Any]] = {}
    for run in runs:
        groups.setdefault(x(run), []).append(y(run))
    for i, (place, values) in enumerate(sorted(groups.items())):
        at = place + shift + rng.uniform(-width / 3, width / 3, len(values))
        axes.scatter(at, values, s=28, facecolors="none", edgecolors=colour, alpha=0.35)
        centre = place + shift
        axes.hlines(
            np.mean(values), centre - width / 2, centre + width / 2, colors=colour, lw=3, label=name if i == 0 else ""
        )
