"""Recompute the study's own tables: every measure of every run, its averages, ratios and correlations."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.output import output
from tools.studies.reidentification.tables import Correlation, Run, averages, correlate, read_runs, select
from tools.studies.results import finite, write_json

MEASURES = ("fp_rate", "precision", "recall", "mcc", "fscore", "accuracy")
KNOWN, UNKNOWN = "train-2-1", "test-1"
SEARCH_SPACES = (163_000, 1_174_415, 3_000_000, 6_000_000)
"""Comparisons that the paper's figure 2c shows: 4,000 x 163 and 6,000 x 150 are left out there."""


def differences(run: Run) -> dict[str, str]:
    """Measures whose printed value is not the one that follows from the printed counts, beyond its last digit.

    An undefined measure is printed as nothing or ``nan``. The counts must also add up to the sizes of the run.
    """
    found = {}
    measures = run.counts.measures()
    for name in MEASURES:
        printed, value = run.cells[f"mindcf_{name}"].strip().lower(), measures[name]
        if not isinstance(value, float) or not _agrees(printed, value):
            found[name] = f"{printed or 'nothing'} printed, {value:.9g} computed"
    if run.counts.comparisons != run.comparisons:
        found["comparisons"] = f"{run.comparisons} by size, {run.counts.comparisons} counted"
    if run.counts.true_acceptances + run.counts.false_rejections != run.overlap:
        found["overlap"] = f"{run.overlap} named, {run.counts.true_acceptances + run.counts.false_rejections} counted"
    return found


def _agrees(printed: str, value: float) -> bool:
    if printed in ("", "nan"):
        return math.isnan(value)
    mantissa, _, exponent = printed.partition("e")
    digits = len(mantissa.partition(".")[2])
    return abs(float(printed) - value) <= 0.5001 * 10.0 ** (int(exponent or 0) - digits) + 1e-15


def check(vox: Sequence[Run], tasks: Sequence[Run]) -> dict[str, Any]:
    """All checks, as plain values."""
    wrong = [(run, found) for run in (*vox, *tasks) if (found := differences(run))]
    sizes = select(vox, KNOWN, UNKNOWN)
    shown = select(vox, KNOWN, UNKNOWN, comparisons=SEARCH_SPACES)
    everything = select(vox, KNOWN, "train-2-0", UNKNOWN)
    return {
        "runs": len(vox) + len(tasks),
        "measures": len(MEASURES) * (len(vox) + len(tasks)),
        "runs_that_differ": len(wrong),
        "differences": dict(Counter(name for _, found in wrong for name in found)),
        "mcc_printed_nan": sum("nan printed" in found.get("mcc", "") for _, found in wrong),
        "examples": [{"output": run.cells["output_data"], **found} for run, found in wrong[:3]],
        "sizes": {str(c): values for c, values in averages(sizes).items()},
        "sizes_with_earlier_runs": {str(c): values for c, values in averages(everything).items()},
        "full_overlap": {str(c): v for c, v in averages(select(vox, "full-train-1", "full-test-1")).items()},
        "tasks": {
            experiment: averages(select(tasks, experiment), lambda run: run.task)
            for experiment in sorted({run.experiment for run in tasks})
        },
        "correlation": {
            "four search spaces of figure 2c, 50 runs each": _false(shown),
            "six sizes, 50 runs each": _false(sizes),
            "six sizes and the earlier runs": _false(everything),
        },
    }


def _false(runs: Sequence[Run]) -> dict[str, float]:
    found: Correlation = correlate(runs, lambda run: run.comparisons, lambda run: run.counts.false_acceptances)
    return {"r": found.r, "p": found.p, "runs": found.runs}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", type=Path, help="folder with the study's output_vox.csv and output_mayo.csv")
    parser.add_argument("--json", type=output, metavar="OUT", help="write the result")


def run(arguments: argparse.Namespace) -> int:
    tables = [read_runs(arguments.reference / f"output_{name}.csv") for name in ("vox", "mayo")]
    result = check(*tables)
    if arguments.json:
        write_json(arguments.json, result)
    print(json.dumps(finite(result), indent=1))
    return 0
