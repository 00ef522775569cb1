"""The study's figures: histograms of score variation, and how detection trades off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.studies.adversarial.scores import Floats, Scores

BLUE, RED = "#0072B2", "#D55E00"
"""Genuine, adversarial."""
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
BINS = 30


def histograms(name: str, genuine: Scores, adversarial: Scores, transforms: Sequence[str]) -> Figure:
    """Score variation of genuine and adversarial trials: a row for each transform, target and non-target apart."""
    rows = len(transforms)
    figure = Figure(figsize=(9, 2.4 * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, 2, squeeze=False, sharex="row")
    for transform, axes in zip(transforms, grid, strict=True):
        known, found = genuine.variation(transform), adversarial.variation(transform)
        edges = np.linspace(0, max(float(known.max()), float(found.max()), 1e-6), BINS + 1)
        for axis, target in zip(axes, (True, False), strict=True):
            _histogram(axis, known[genuine.target == target], edges, BLUE, "genuine")
            _histogram(axis, found[adversarial.target == target], edges, RED, name)
            axis.set_title(f"{transform}, {'target' if target else 'non-target'}", fontsize=9)
            axis.set_xlabel("score variation |s - s'|", fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(frameon=False, fontsize=8)
    return figure


def roc(names: Sequence[str], genuine: Scores, adversarial: Sequence[Scores], transforms: Sequence[str]) -> Figure:
    """Detection rate by false positive rate: a panel for each condition, a line for each transform."""
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.8 * columns, 3.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, name, scores in zip(grid, names, adversarial, strict=False):
        for i, transform in enumerate(transforms):
            false, detected = operating_points(genuine.variation(transform), scores.variation(transform))
            axis.step(false, detected, where="post", color=COLOURS[i % len(COLOURS)], label=transform)
        axis.plot((0, 1), (0, 1), color="0.7", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name}, {len(scores.plain)} trials", fontsize=9)
        axis.set_xlabel("false positive rate")
        axis.set_ylabel("detection rate")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in grid[len(names) :]:
        axis.axis("off")
    grid[0].legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def operating_points(genuine: Floats, adversarial: Floats) -> tuple[Floats, Floats]:
    """Share of genuine and of adversarial variations above each distinct threshold, from the highest down."""
    limits = np.append(np.unique(np.concatenate((genuine, adversarial)))[::-1], -np.inf)
    shares = [1 - np.searchsorted(np.sort(part), limits, side="right") / len(part) for part in (genuine, adversarial)]
    return shares[0], shares[1]


def _histogram(axis: Axes, values: Floats, edges: Floats, colour: str, label: str) -> None:
    if len(values):
        weights = np.full(len(values), 1 / len(values))
        axis.hist(values, edges.tolist(), weights=weights, color=colour, alpha=0.55, label=f"{label} ({len(values)})")
        axis.set_ylabel("share of trials", fontsize=8)
