"""Further measures of scored runs: best match only, known overlap only, and whom the false acceptances concern."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tools.studies.errors import StudyError
from tools.studies.reidentification.acceptances import Acceptances, People, accept
from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.experiments import cell
from tools.studies.reidentification.results import SINGLE, ScoredData, read_data
from tools.studies.results import write_rows

CALCULATIONS = ("rank1", "known", "overlap")
COUNT_COLUMNS = ("files", "TA", "FA", "TR", "FR", "prec")
OVERLAP_COLUMNS = ("files", "total_matches", "total_FA", "FA_non_overlap", "FA_overlap")


def accepted(data: ScoredData) -> Acceptances:
    """The cells of ``data`` that reach its threshold.

    Raises:
        StudyError: an unknown speaker labelled as several known ones.
    """
    if (data.actual.sum(axis=0) > 1).any():
        name = data.unknown[int(data.actual.sum(axis=0).argmax())]
        raise StudyError(f"unknown speaker {name!r} is labelled as several known speakers")
    count = len(data.known)
    unknown = np.where(data.actual.any(axis=0), data.actual.argmax(axis=0), count + np.arange(len(data.unknown)))
    return accept(data.scores, data.threshold, People(np.arange(count), unknown))


def find_files(folder: Path, wildcard: str, regular: str | None) -> list[Path]:
    """Data files of ``folder`` by a wildcard pattern or by a regular expression that matches the whole name.

    Raises:
        StudyError: no such folder, not a regular expression, or nothing matches.
    """
    if not folder.is_dir():
        raise StudyError(f"{folder}: no such folder")
    try:
        files = sorted(
            path
            for path in folder.iterdir()
            if (re.fullmatch(regular, path.name) if regular is not None else path.match(wildcard))
        )
    except re.error as error:
        raise StudyError(f"{regular!r} is not a regular expression ({error})") from error
    if not files:
        raise StudyError(f"{folder}: no file matches {regular if regular is not None else wildcard!r}")
    return files


def count_row(file: Path, counts: Counts) -> tuple[str, ...]:
    return (
        str(file),
        str(counts.true_acceptances),
        str(counts.false_acceptances),
        str(counts.true_rejections),
        str(counts.false_rejections),
        cell(counts.precision),
    )


def overlap_row(file: Path, found: Acceptances) -> tuple[str, ...]:
    counts, (outside, inside) = found.counts(), found.false_by_overlap()
    total = counts.true_acceptances + counts.false_acceptances
    return (str(file), *map(str, (total, counts.false_acceptances, outside, inside)))


def write_metrics(folder: Path, files: Sequence[Path], kind: str, chosen: Sequence[str], overlap: int) -> list[Path]:
    """Write one table in ``folder`` for each calculation; returns their paths."""
    tables: dict[str, list[tuple[str, ...]]] = {name: [] for name in chosen}
    for file in tqdm(files, unit="run", disable=None):
        found = accepted(read_data(file, kind))
        rows = {
            "rank1": count_row(file, found.rank1()),
            "known": count_row(file, found.best(overlap)),
            "overlap": overlap_row(file, found),
        }
        for name in chosen:
            tables[name].append(rows[name])
    names = {
        "rank1": f"rank1_counts_{kind}.csv",
        "known": f"{overlap}_known_overlap_counts_{kind}.csv",
        "overlap": f"non_overlap_acceptances_{kind}.csv",
    }
    for name, lines in tables.items():
        write_rows(folder / names[name], OVERLAP_COLUMNS if name == "overlap" else COUNT_COLUMNS, lines)
    return [folder / names[name] for name in tables]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--data_dirs", nargs="+", type=Path, required=True, help="folders of results")
    parser.add_argument("-r", "--root_dir", type=Path, default=Path(), help="folder that they are relative to")
    names = parser.add_mutually_exclusive_group()
    names.add_argument("-e", "--reg_exp", default="*data.json", help="wildcards for file names (default *data.json)")
    names.add_argument("-E", "--regular", help="a regular expression for file names instead")
    parser.add_argument("-t", "--th_func", default="mindcf", choices=("mindcf", "eer", *SINGLE), help="threshold")
    parser.add_argument("-c", "--to_calculate", nargs="+", default=CALCULATIONS, choices=CALCULATIONS)
    parser.add_argument("-n", "--known_overlap", type=int, default=5, help="matches an adversary looks for (default 5)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.known_overlap < 0:
        raise StudyError(f"known overlap {arguments.known_overlap}; a number of speakers is not negative")
    for name in arguments.data_dirs:
        folder = arguments.root_dir / name
        files = find_files(folder, arguments.reg_exp, arguments.regular)
        written = write_metrics(folder, files, arguments.th_func, arguments.to_calculate, arguments.known_overlap)
        print(*written, sep="\n")
    return 0
