"""The running table of experiments, one line a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.studies.reidentification.layouts import read_table
from tools.studies.results import finite, write_rows

RATES = {
    "fp_rate": "fp_rate",
    "precision": "precision",
    "recall": "recall",
    "mcc": "mcc",
    "fscore": "fscore",
    "accuracy": "accuracy",
    "confusion": "confusion_matrix",
    "threshold": "threshold",
    "average": "average",
}
"""Columns and the measures they hold."""


def add_experiment(
    folder: Path, prefix: str, split: Path, outputs: tuple[Path, Path], measures: Mapping[str, Mapping[str, Any]]
) -> Path:
    """Enter a run in FOLDER/experiments.csv (with both thresholds) or FOLDER/PREFIX_th_experiments.csv.

    A run whose data file is in the table already replaces its line. Returns the table's path.
    """
    both = len(measures) > 1
    path = folder / ("experiments.csv" if both else f"{prefix}_th_experiments.csv")
    row = {"dataset": str(split), "output_data": str(outputs[0]), "output_metrics": str(outputs[1])}
    for kind, values in measures.items():
        row |= {f"{kind}_{c}" if both else c: cell(values[measure]) for c, measure in RATES.items()}
    others = read_table(path, row) if path.exists() else []
    rows = [old for old in others if old["output_data"] != row["output_data"]] + [row]
    write_rows(path, list(row), ([line[column] for column in row] for line in rows))
    return path


def cell(value: Any) -> str:
    """A number or matrix for a CSV cell; empty where it is undefined."""
    value = finite(value)
    return "" if value is None else str(value)
