"""Tables and figures of a study whose detection is measured: report.md, and pictures as PNG and SVG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tools.studies.adversarial import figures
from tools.studies.adversarial.config import GENUINE, Study, read_study
from tools.studies.adversarial.detect import RESULT
from tools.studies.adversarial.scores import Scores, read_scores
from tools.studies.errors import StudyError
from tools.studies.results import read_json, whole_file

KINDS = ("all", "target", "nontarget")


def report_all(study: Study) -> list[Path]:
    """Write tables and figures; returns the files.

    Raises:
        StudyError: detection was not measured, or on other transforms.
    """
    result = read_json(study.output / RESULT)
    genuine = _scores(study, GENUINE)
    attacks = {name: _scores(study, name) for name in result["attacks"]}
    written = [study.output / "report.md"]
    try:
        text = tables(result, study.transforms)
    except KeyError as error:
        raise StudyError(f"{study.output / RESULT}: nothing of {error}; run 'detect' again") from error
    with whole_file(written[0]) as temporary:
        temporary.write_text(text, "utf-8")
    for name, scores in attacks.items():
        written += _save(figures.histograms(name, genuine, scores, study.transforms), study, f"variation-{name}")
    if attacks:
        drawn = figures.roc(list(attacks), genuine, list(attacks.values()), study.transforms)
        written += _save(drawn, study, "roc")
    return written


def tables(result: dict[str, Any], transforms: tuple[str, ...]) -> str:
    """The EER table, then a table of detection rates for each false positive rate."""
    genuine, attacks = result["genuine"], result["attacks"]
    lines = [
        "# Equal error rates",
        "",
        _row("condition", "trials", "SNR (dB)", "none", *transforms),
        _rule(4, transforms),
    ]
    for name, part in {GENUINE: genuine, **attacks}.items():
        snr = part.get("snr_db")
        eers = [part["eer"], *(part["transforms"][transform]["eer"] for transform in transforms)]
        median = "" if snr is None else f"{snr['median']:.1f}"
        lines.append(_row(name, f"{part['n_target']} + {part['n_nontarget']}", median, *map(_percent, eers)))
    for rate in next(iter(genuine["transforms"].values()))["thresholds"]:
        lines += ["", f"# Detection rates at a false positive rate of {float(rate):.1%}", ""]
        lines += [_row("condition", "trials", *transforms), _rule(2, transforms)]
        known = {name: part["thresholds"][rate] for name, part in genuine["transforms"].items()}
        marks = ("" if known[name]["supported"] else " (too few genuine trials)" for name in transforms)
        limits = (f"> {known[name]['value']:.4f}{mark}" for name, mark in zip(transforms, marks, strict=True))
        lines.append(_row("threshold", "", *limits))
        for name, part in attacks.items():
            for kind in KINDS:
                cells = [part["transforms"][transform]["detection"][rate][kind] for transform in transforms]
                if cells[0]["trials"]:
                    shown = (f"{_percent(cell['rate'])} ({cell['detected']}/{cell['trials']})" for cell in cells)
                    lines.append(_row(name, kind, *shown))
    return "\n".join(lines) + "\n"


def _scores(study: Study, name: str) -> Scores:
    return read_scores(study.output / "scores" / f"{name}.csv", study.transforms)


def _save(figure: Figure, study: Study, name: str) -> list[Path]:
    written = []
    for kind in ("png", "svg"):
        path = study.output / "figures" / f"{name}.{kind}"
        with whole_file(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150)
        written.append(path)
    return written


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(fixed: int, transforms: tuple[str, ...]) -> str:
    return "|---" * (fixed + len(transforms)) + "|"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")


def run(arguments: argparse.Namespace) -> int:
    print(*report_all(read_study(arguments.study)), sep="\n")
    return 0
