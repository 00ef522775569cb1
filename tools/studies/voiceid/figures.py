"""The study's figures: attack success, authentication with transformed voices, latency by length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tools.studies.results import whole_file
from tools.studies.voiceid.recipes import LABELS, LIVE
from tools.studies.voiceid.success import AGENT, IDENTITY_ONLY
from tools.studies.voiceid.transform import shown

matplotlib.rcParams["svg.hashsalt"] = "voiceid"
Floats = NDArray[np.float64]
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
WIDTH = 7.0


def attack_success(result: Mapping[str, Any]) -> Figure:
    """Table I as bars: what both agents accept, with 95 % intervals; what ought to be accepted stands apart."""
    names = [name for name in LABELS if name in result["sets"]]
    figure = Figure((WIDTH, 0.8 + 0.5 * len(names)), layout="constrained")
    axes = figure.subplots()
    for shift, (agent, label) in enumerate(((IDENTITY_ONLY, "identity only"), (AGENT, "whole agent"))):
        parts = [result["sets"][name][agent] for name in names]
        rates = np.array([100 * part["rate"] for part in parts])
        bounds = np.array([[100 * bound for bound in part["ci95"]] for part in parts])
        errors = np.abs(bounds.T - rates)
        places = np.arange(len(names)) + 0.38 * shift
        axes.barh(places, rates, 0.36, xerr=errors, color=COLOURS[shift], label=label, error_kw={"lw": 0.8})
        for place, rate, end in zip(places, rates, bounds[:, 1], strict=True):
            axes.text(end + 1, place, f"{rate:.0f}", va="center", fontsize=8)
    axes.set_yticks(np.arange(len(names)) + 0.19, [LABELS[name] for name in names])
    if 0 < (wanted := len(set(LIVE) & set(names))) < len(names):
        axes.axhline(wanted - 0.31, color="0.6", lw=0.8, ls="--")
    axes.invert_yaxis()
    axes.set(xlabel="accepted (%)", xlim=(0, 110), xticks=range(0, 101, 20))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return figure


def authentication(result: Mapping[str, Any]) -> Figure:
    """Figure 4: success of authentication by transformation and identity card."""
    cards = result["cards"]
    names = list(next(iter(cards.values()))["success"])
    bars = []
    for card, part in cards.items():
        found = [part["success"].get(name, {"mean": np.nan, "sd": np.nan}) for name in names]
        means, deviations = (np.array([100 * one[what] for one in found]) for what in ("mean", "sd"))
        bars.append((Path(card).stem, means, deviations))
    figure, axes = _grouped(names, bars)
    axes.set(ylabel="authentication success (%)", ylim=(0, 110))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(cards), frameon=False)
    return figure


def utility(result: Mapping[str, Any]) -> Figure:
    """Table III as bars: word error rates by transformation and recogniser, with 95 % intervals."""
    recognisers = result["recognisers"]
    names = list(next(iter(recognisers.values()))["sets"])
    bars = []
    for recogniser, part in recognisers.items():
        found = [part["sets"][name] for name in names]
        rates = np.array([100 * one["wer"] for one in found])
        bounds = np.array([[100 * bound for bound in one["ci95"]] for one in found])
        bars.append((recogniser, rates, np.abs(bounds.T - rates)))
    figure, axes = _grouped(names, bars)
    axes.margins(y=0.12)
    axes.set(ylabel="word error rate (%)", ylim=(0, None))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return figure


def _grouped(names: Sequence[str], bars: Sequence[tuple[str, Floats, Floats]]) -> tuple[Figure, Axes]:
    """At each of ``names`` (n,) bars side by side: label, heights (n,), and errors (n,) or (2, n)."""
    figure = Figure((WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(bars)
    for shift, (label, heights, errors) in enumerate(bars):
        places = np.arange(len(names)) + (shift - (len(bars) - 1) / 2) * width
        colour = COLOURS[shift % len(COLOURS)]
        drawn = axes.bar(places, heights, width, yerr=errors, color=colour, label=label, error_kw={"lw": 0.8})
        axes.bar_label(drawn, fmt="%.0f", fontsize=8)
    axes.set_xticks(np.arange(len(names)), list(map(shown, names)), rotation=30, ha="right")
    return figure, axes


def latency(result: Mapping[str, Any]) -> Figure:
    """Latency of a decision and its units by the length of the speech."""
    figure = Figure((WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    for colour, threads in zip(COLOURS, sorted({run["threads"] for run in result["runs"]}), strict=False):
        runs = sorted((run["seconds"], run["total"]) for run in result["runs"] if run["threads"] == threads)
        lengths = [seconds for seconds, _ in runs]
        unit = "thread" if threads == 1 else "threads"
        axes.plot(lengths, [t["p50_ms"] for _, t in runs], "o-", color=colour, label=f"p50, {threads} {unit}")
        axes.plot(
            lengths, [t["cpu_ms"] for _, t in runs], "x:", color=colour, label=f"processor time, {threads} {unit}"
        )
    axes.set(xlabel="speech (s)", ylabel="milliseconds", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


FIGURES: dict[str, tuple[str, Callable[[Mapping[str, Any]], Figure]]] = {
    "attack-success": ("success", attack_success),
    "authentication": ("authentication", authentication),
    "utility": ("utility", utility),
    "latency": ("cost", latency),
}
"""Figures by name: the step whose result they show, and how they are drawn."""


def draw(name: str, result: Mapping[str, Any], folder: Path) -> str:
    """Write the figure as PNG and SVG into ``folder``; returns the SVG."""
    figure = FIGURES[name][1](result)
    for kind, metadata in (("png", None), ("svg", {"Date": None})):
        with whole_file(folder / f"{name}.{kind}") as temporary:
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
    return (folder / f"{name}.svg").read_text("utf-8")
