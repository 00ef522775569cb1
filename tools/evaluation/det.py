"""Detection-error-trade-off curves: few points that go into the JSON, and their picture on probit axes.

``python -m tools.evaluation.det RESULT.json OUT.svg`` draws the curves of a result again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.options import EvaluationError
from tools.output import output
from tools.train.metrics import operating_curve
from voiceid.errors import VoiceIdError
from voiceid.file_kind import this_is
from voiceid.plotting import check_matplotlib

Floats = NDArray[np.float64]
MIN_TRIALS = 30
"""Trials of each class below which there is no curve."""
MAX_POINTS = 200
"""Points that a curve keeps."""
MAX_CURVES = 10
"""Curves that a reader can tell apart in one picture."""
LOWEST, HIGHEST = 0.001, 0.7
"""Error rates at the ends of the axes; what lies beyond is drawn there."""
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
MARKERS = {"convenience": "^", "balanced": "o", "strict": "s"}
SUFFIXES = (".png", ".svg", ".pdf")
AXES = {
    "verification": ("others accepted (FAR)", "owners refused (FRR)"),
    "spoofing": ("attacks accepted (APCER)", "bona fide refused (BPCER)"),
    "liveness": ("replays accepted (APCER)", "live speech refused (BPCER)"),
    "decision": ("others and attacks accepted", "owners refused (FRR)"),
}
"""Names of both error rates, by command."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Error rates as fractions from the lowest threshold to the highest: ``false_alarm`` falls, ``miss`` rises.

    ``trials`` are genuine and other; ``points`` are (false alarm, miss) at the card's operating points.
    """

    label: str
    false_alarm: list[float]
    miss: list[float]
    eer: float
    trials: tuple[int, int]
    points: dict[str, tuple[float, float]]


def thin_curve(positives: Floats, negatives: Floats) -> dict[str, list[Any]]:
    """What the JSON keeps of a curve: its trials and at most :data:`MAX_POINTS` points, evenly along it as drawn.

    Raises:
        ValueError: a class without trials.
    """
    whole = operating_curve(positives, negatives)
    x, y = whole.false_alarm, whole.miss
    straight = ((x[:-2] == x[1:-1]) & (x[1:-1] == x[2:])) | ((y[:-2] == y[1:-1]) & (y[1:-1] == y[2:]))
    corners = np.flatnonzero(~np.concatenate(([False], straight, [False])))
    if len(corners) > MAX_POINTS:
        steps = np.hypot(np.diff(probit(x[corners])), np.diff(probit(y[corners])))
        along = np.concatenate(([0.0], np.cumsum(steps)))
        even = np.searchsorted(along, np.linspace(0, along[-1], MAX_POINTS - 1))
        corners = corners[np.unique([*even, len(corners) - 1])]
    return {
        "trials": [len(positives), len(negatives)],
        "false_alarm": [round(float(rate), 5) for rate in x[corners]],
        "miss": [round(float(rate), 5) for rate in y[corners]],
    }


def curves(result: Mapping[str, Any], label: str = "all") -> Iterator[Curve]:
    """The curves in the ``result`` of a measurement: of all trials as ``label``, of its groups, of its conditions.

    A group of the very trials of another is left out.
    """
    parts = [(label, result)]
    parts += [(f"{key}: {name}", part) for key, group in result.get("by", {}).items() for name, part in group.items()]
    parts += list(result.get("conditions", {}).items())
    seen: list[Any] = []
    for name, part in parts:
        curve = part.get("curve")
        if curve is not None and curve not in seen:
            seen.append(curve)
            trials = (curve["trials"][0], curve["trials"][1])
            yield Curve(name, curve["false_alarm"], curve["miss"], part["eer"], trials, _points(part))


def _points(part: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    def rate(rates: Mapping[str, Any], *names: str) -> float:
        value = next(rates[name] for name in names if name in rates)
        return float(value["rate"] if isinstance(value, Mapping) else value)

    thresholds = part.get("thresholds", {})
    return {point: (rate(r, "far", "apcer"), rate(r, "frr", "bpcer")) for point, r in thresholds.items()}


def probit(rates: Sequence[float] | Floats) -> Floats:
    """Normal deviates of error rates, kept within the axes."""
    return np.array([NormalDist().inv_cdf(rate) for rate in np.clip(rates, LOWEST, HIGHEST)])


def draw(path: Path, shown: Sequence[Curve], *, title: str, axes: tuple[str, str]) -> None:
    """Draw the first :data:`MAX_CURVES` of ``shown``, and the operating points of the first, to ``path``.

    ``axes`` name false alarm and miss; a cross marks every equal error rate.

    Raises:
        EvaluationError: there is no curve.
        MissingPackageError: matplotlib is not installed.
        OSError: ``path`` cannot be written.
    """
    if not shown:
        raise EvaluationError(f"{path}: no curve to draw; one needs {MIN_TRIALS} trials of each class")
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axis = figure.subplots()
    ends = probit((LOWEST, HIGHEST))
    axis.plot(ends, ends, color="0.8", linewidth=0.8, zorder=0)
    for number, curve in enumerate(shown[:MAX_CURVES]):
        colour = f"C{number}"
        label = f"{curve.label[:50]}: EER {100 * curve.eer:.1f} % ({curve.trials[0]} / {curve.trials[1]})"
        axis.plot(probit(curve.false_alarm), probit(curve.miss), color=colour, linewidth=1.3, label=label)
        axis.plot(*probit((curve.eer, curve.eer)), marker="x", color=colour, markersize=7)
    for point, rates in shown[0].points.items():
        marker, name = MARKERS.get(point, "d"), f"{point} point of {shown[0].label}"
        axis.plot(*probit(rates), marker=marker, color="0.2", markersize=6, fillstyle="none", linestyle="", label=name)
    for ticks, limits in ((axis.set_xticks, axis.set_xlim), (axis.set_yticks, axis.set_ylim)):
        ticks(probit(TICKS), [f"{100 * tick:g}" for tick in TICKS])
        limits(*ends)
    axis.set(xlabel=f"{axes[0]}, per cent", ylabel=f"{axes[1]}, per cent", aspect="equal")
    axis.set_title(title, fontsize=10, parse_math=False)
    axis.grid(color="0.9", linewidth=0.5)
    figure.legend(fontsize=7, loc="outside right upper")
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "voiceid"}):
        undated = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata=undated)


def draw_result(path: Path, result: Mapping[str, Any]) -> None:
    """Draw all curves of one measurement.

    Raises:
        EvaluationError, MissingPackageError, OSError: as :func:`draw`.
    """
    draw(path, list(curves(result)), title=result["command"], axes=AXES[result["command"]])


def picture(text: str) -> Path:
    """An argument that names a picture of a known kind to draw."""
    return output(text, SUFFIXES)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Declare ``--det``."""
    parser.add_argument(
        "--det",
        type=picture,
        metavar="OUT",
        help=f"draw the detection error trade-off to OUT ({', '.join(SUFFIXES)}): a curve for each of the first "
        f"{MAX_CURVES} groups with {MIN_TRIALS} trials of each class (the JSON has the curves of all)",
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, help="JSON that evaluate.py wrote")
    parser.add_argument("output", type=picture, help="picture")
    options = parser.parse_args(arguments)
    try:
        draw_result(options.output, _read_result(options.result))
    except (EvaluationError, VoiceIdError) as error:
        parser.error(str(error))
    return 0


def _read_result(path: Path) -> dict[str, Any]:
    """What ``evaluate.py`` wrote to ``path``.

    Raises:
        EvaluationError: that is something else, or a result without curves.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        result: dict[str, Any] = json.loads(data)
        known = result["command"] in AXES
    except (ValueError, LookupError, TypeError, RecursionError):
        known = False
    if not known:
        raise EvaluationError(f"{path}: no JSON of evaluate.py with curves ({', '.join(AXES)}){this_is(data)}")
    return result


if __name__ == "__main__":
    raise SystemExit(main())
