"""Draw the study's figures 2 to 5 and supplementary figure 1 from tables of runs, as PNG and SVG."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.studies.errors import StudyError
from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.figures import FIGURES
from tools.studies.reidentification.layouts import read_table
from tools.studies.reidentification.tables import Run, read_runs
from tools.studies.results import whole_file


def draw(runs: Sequence[Run], folder: Path, names: Sequence[str] = tuple(FIGURES)) -> list[Path]:
    """Draw the figures that ``runs`` have data for; returns the files.

    Raises:
        StudyError: data for none of them.
    """
    written = []
    for name in names:
        figure = FIGURES[name](runs)
        if figure is None:
            continue
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=150)
            written.append(path)
    if not written:
        known = sorted({run.experiment for run in runs})
        raise StudyError(f"no figure has data in experiments {', '.join(known)}; see --help for their names")
    return written


def limited(runs: Sequence[Run], table: Path) -> list[Run]:
    """``runs`` with counts of best matches only from a table that ``metrics`` (known) wrote, by their data files."""
    found = {
        Path(row["files"]).name: Counts(*(int(row[name]) for name in ("TA", "FR", "FA", "TR")))
        for row in read_table(table, ("files", "TA", "FA", "TR", "FR"))
    }
    return [replace(run, limited=found.get(Path(run.cells.get("output_data", "")).name, run.limited)) for run in runs]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="+", type=Path, help="tables of runs, such as output_vox.csv")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--limited", type=Path, metavar="CSV", help="N_known_overlap_counts table for figure 4")
    parser.add_argument("--figures", nargs="+", choices=tuple(FIGURES), default=tuple(FIGURES))
    parser.epilog = (
        "Experiments: train-2-1 (known sizes), test-1 (unknown sizes), full-train-1 and full-test-1 (full overlap), "
        "across-default and within-default (tasks), train-1-orig (fixed unknown speakers)."
    )


def run(arguments: argparse.Namespace) -> int:
    runs = [run for table in arguments.tables for run in read_runs(table)]
    if arguments.limited:
        runs = limited(runs, arguments.limited)
    print(*draw(runs, arguments.output_dir, arguments.figures), sep="\n")
    return 0
