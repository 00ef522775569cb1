"""Many runs: sizes of the known and the unknown set, overlaps, and tasks across or within."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tools.studies import cluster
from tools.studies.reidentification.config import Sweep, Synthetic, check_sweep
from tools.studies.reidentification.experiments import cell
from tools.studies.reidentification.pool import Pool, load_pool
from tools.studies.reidentification.reidentify import (
    JSON_CELLS,
    PldaOptions,
    Risk,
    add_plda_arguments,
    plda_options,
    reidentify,
)
from tools.studies.reidentification.scan import Apply, score_all
from tools.studies.reidentification.split import Sizes, SplitOptions, find_all, split
from tools.studies.reidentification.synthetic import Population, population_of, synthetic_pool
from tools.studies.reidentification.tasks import TaskFilter, Tasks
from tools.studies.reidentification.thresholds import equal_error
from tools.studies.results import kept, write_rows
from tools.studies.study_file import options_of

MEASURES = ("fp_rate", "precision", "recall", "mcc", "fscore", "accuracy")
FIXED = (
    "experiment", "data-type", "num_train", "train_type", "num_test", "test_type", "num_overlap", "overlap-type",
    "th_runs", "subset", "plda_rank", "c_fa", "c_miss", "p_target", "seed",
)  # fmt: skip
SYNTHETIC_SESSIONS = 4
"""Recordings of each person who does not exist."""
EXTRA = ("rank1_confusion", "known_confusion", "FA_non_overlap", "FA_overlap", "trial_eer", "identified")
"""Beyond the study's columns: best match only, as many matches as speakers overlap, whom false ones concern; and, of up
to ``JSON_CELLS`` comparisons, the EER of them all and the share of overlapping speakers who score best as themselves.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a design. ``train_tasks`` and ``test_tasks`` are patterns; all tasks where empty."""

    experiment: str
    known: int
    unknown: int
    overlap: int
    train_tasks: tuple[str, ...] = ()
    test_tasks: tuple[str, ...] = ()

    def tasks(self) -> Tasks:
        test = TaskFilter(self.test_tasks)
        return Tasks(TaskFilter(self.train_tasks), test, test)


def design(chosen: Sweep) -> list[Cell]:
    """Every known with every unknown size and task.

    Tasks are patterns joined by commas; with ``within`` the known speakers' task is that of the unknown.
    """
    return [
        Cell(
            chosen.experiment,
            known,
            unknown,
            unknown if chosen.full_overlap else chosen.overlap,
            _patterns(task if chosen.within else chosen.train_tasks),
            _patterns(task),
        )
        for known in chosen.known
        for unknown in chosen.unknown
        for task in chosen.test_tasks
    ]


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class Runs:
    """Makes one run (cell, number) over a pool, or reads what ``folder`` has of it; returns its row."""

    pool: Pool
    split: SplitOptions
    options: PldaOptions
    folder: Path

    def __call__(self, job: tuple[Cell, int]) -> dict[str, str]:
        cell_, number = job
        path = self.path(cell_, number)

        def make() -> dict[str, Any]:
            return {"cell": asdict(cell_), "run": number, "row": self._row(cell_, number)}

        row: dict[str, str] = kept(path, path.stem, make)["row"]
        return row

    def _row(self, cell_: Cell, number: int) -> dict[str, str]:
        seeds = np.random.SeedSequence([self.options.seed, number, _number(cell_)]).generate_state(2)
        options = replace(self.options, seed=int(seeds[1]))
        chosen = replace(self.split, seed=int(seeds[0]), tasks=cell_.tasks())
        sizes = Sizes(cell_.known, cell_.unknown, cell_.overlap)
        rows = split([(list(self.pool.recordings[0]), sizes)], chosen)
        risk = reidentify(self.pool.dataset(rows), options)
        return row_of(cell_, number, risk, options, self.pool.recordings[0][0].data_type)

    def path(self, cell_: Cell, number: int) -> Path:
        content = json.dumps(
            [EXTRA, self.pool.key, asdict(cell_), number, asdict(self.split), asdict(self.options)], sort_keys=True
        )
        return self.folder / "runs" / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}.json"


def _number(cell_: Cell) -> int:
    return int.from_bytes(hashlib.sha256(repr(replace(cell_, experiment="")).encode()).digest()[:4], "big")


def row_of(cell_: Cell, number: int, risk: Risk, options: PldaOptions, data_type: str) -> dict[str, str]:
    """One line of the table of runs."""
    tasks = [",".join(patterns) or "all" for patterns in (cell_.train_tasks, cell_.test_tasks, cell_.test_tasks)]
    fixed = (
        cell_.experiment, data_type, cell_.known, tasks[0], cell_.unknown, tasks[1], cell_.overlap, tasks[2],
        options.run_threshold, options.subset, options.plda_rank, options.c_fa, options.c_miss, options.p_target,
        number,
    )  # fmt: skip
    row: dict[str, Any] = dict(zip(FIXED, fixed, strict=True))
    for kind, accepted in risk.acceptances.items():
        measures = accepted.counts().measures(options.beta)
        row |= {f"{kind}_{name}": measures[name] for name in MEASURES}
        row[f"{kind}_confusion"] = measures["confusion_matrix"]
        row[f"{kind}_threshold"] = risk.thresholds[kind]
        row[f"{kind}_average"] = risk.averaged[kind].value if kind in risk.averaged else None
    accepted = risk.acceptances["mindcf" if "mindcf" in risk.acceptances else next(iter(risk.acceptances))]
    best_only, as_many = accepted.rank1().matrix(), accepted.best(cell_.overlap).matrix()
    extra = (best_only, as_many, *accepted.false_by_overlap(), *without_threshold(risk, options.p_known))
    row |= dict(zip(EXTRA, extra, strict=True))
    return {name: cell(value) for name, value in row.items()}


def without_threshold(risk: Risk, p_known: float) -> tuple[float, float]:
    """The EER of all comparisons, and the share of overlapping speakers whose best match is themselves.

    NaN without overlapping speakers, or with more than ``JSON_CELLS`` comparisons.
    """
    people, overlapping = risk.people, risk.people.overlapping
    if not overlapping.any() or people.comparisons > JSON_CELLS:
        return math.nan, math.nan
    scores = score_all(*risk.trials.portion(slice(None)), p_known)
    same = people.known[:, None] == people.unknown
    identified = people.known[scores.argmax(axis=0)] == people.unknown
    rate = equal_error(scores[same], scores[~same])[0] if not same.all() else math.nan
    return rate, float(identified[overlapping].mean())


def sweep(cells: Sequence[Cell], runs: int, job: Runs, apply: Apply = map) -> list[dict[str, str]]:
    """All runs of all cells, those done before from the folder; rows in the order of cells, then runs."""
    jobs = [(cell_, number) for cell_ in cells for number in range(runs)]
    for _ in tqdm(apply(job, jobs), total=len(jobs), desc="sweep", unit="run", disable=None):
        pass
    return [job((cell_, number)) for cell_, number in jobs]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-i", "--input_dir", type=Path, help="folder of embeddings (.npy)")
    source.add_argument("--synthetic", type=int, metavar="N", help="N people from a Gaussian population instead")
    default = Population()
    parser.add_argument("--dimension", type=int, default=default.dimensions, help="of synthetic embeddings")
    parser.add_argument("--rank", type=int, default=default.rank, help="directions in which these people differ")
    parser.add_argument("--spread", type=float, default=default.spread, help="how much, in deviations within a person")
    parser.add_argument("-d", "--data", default="generic", metavar="TYPE", help="layout of the folder, as for split")
    parser.add_argument("--dataset", type=Path, help="CSV with file_name, speakerID and task")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for runs, table and cache")
    parser.add_argument("--experiment", default="train-2-1", help="name of the design in the table")
    parser.add_argument("--known", type=int, nargs="+", required=True, help="sizes of the known set")
    parser.add_argument("--unknown", type=int, nargs="+", required=True, help="sizes of the unknown set")
    overlap = parser.add_mutually_exclusive_group()
    overlap.add_argument("--overlap", type=int, default=5, help="speakers in both (default 5)")
    overlap.add_argument("--full_overlap", action="store_true", help="all unknown speakers are known")
    parser.add_argument("--train_tasks", default="", help="tasks of the known, such as s-*,-s-physician")
    parser.add_argument("--test_tasks", nargs="+", default=[""], help="tasks of the unknown, a cell each")
    parser.add_argument("--within", action="store_true", help="the known have the task of the unknown")
    parser.add_argument("--runs", type=int, default=50, help="runs of each cell (default 50)")
    parser.add_argument("-f", "--num_files", type=int, default=1, help="files of each unknown speaker (default 1)")
    add_plda_arguments(parser)
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    chosen, options, folder = options_of(Sweep, arguments), plda_options(arguments), arguments.output_dir
    check_sweep(chosen, "options")
    if arguments.synthetic is not None:
        of = options_of(Synthetic, argparse.Namespace(speakers=arguments.synthetic))
        pool = synthetic_pool(population_of(arguments), of.speakers, SYNTHETIC_SESSIONS, folder / "cache")
    else:
        pool = load_pool(find_all([arguments.input_dir], [arguments.data], arguments.dataset), folder / "cache")
    job = Runs(pool, SplitOptions(files=chosen.num_files), options, folder)
    with cluster.workers_for(arguments) as workers:
        rows = sweep(design(chosen), chosen.runs, job, workers)
    path = folder / f"{chosen.experiment}.csv"
    write_table(path, rows)
    print(path)
    return 0


def write_table(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """Write rows of :func:`sweep` as CSV."""
    write_rows(path, list(rows[0]), ([row[name] for name in rows[0]] for row in rows))
