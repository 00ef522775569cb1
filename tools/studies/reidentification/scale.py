"""Measure the scoring of large populations: throughput and memory, and SpeechBrain's route beside it.

The people do not exist (see ``sweep --synthetic``); their embeddings are made where they are needed, so that nothing
but the block size bounds the memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from tools.output import output
from tools.studies import cluster
from tools.studies.errors import StudyError
from tools.studies.reidentification import peer
from tools.studies.reidentification.acceptances import People
from tools.studies.reidentification.plda import Plda
from tools.studies.reidentification.scan import BLOCK, Trials, scan, score_all
from tools.studies.reidentification.synthetic import Population, Session, population_of
from tools.studies.reidentification.thresholds import ThresholdOptions, average_thresholds
from tools.studies.results import finite, write_json
from tools.studies.versions import software
from voiceid.errors import MissingPackageError

PRECISIONS: dict[str, type[np.floating]] = {"float32": np.float32, "float64": np.float64}
THRESHOLD_SPEAKERS = 1000
"""People with two recordings on which the threshold is found."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock and of processors, children included, and the largest process in MiB."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


class Meter:
    """Measures from its making on; children count once they have ended."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.monotonic(), self._used()

    @staticmethod
    def _used() -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def read(self) -> Spent:
        peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return Spent(time.monotonic() - self._clock, self._used() - self._cpu, max(peaks) / 1024)


def population_plda(population: Population) -> Plda:
    """The PLDA that is true of ``population``."""
    return Plda(np.zeros(population.dimensions), population.loadings(), np.eye(population.dimensions))


def measure(
    population: Population,
    sizes: tuple[int, int, int],
    options: ThresholdOptions,
    workers: cluster.Workers,
    *,
    block: int = BLOCK,
    precision: str = "float64",
) -> dict[str, Any]:
    """Find a threshold, then score ``sizes`` (known, unknown, overlap) people; counts at the strict threshold."""
    known, unknown, overlap = sizes
    if not 0 <= overlap <= min(known, unknown):
        raise StudyError(f"{overlap} overlapping of {known} known and {unknown} unknown speakers")
    plda = population_plda(population)
    meter = Meter()
    people = known + unknown - overlap
    sample = [population.recordings(people, THRESHOLD_SPEAKERS, session) for session in (0, 1)]
    names = [str(i) for i in range(THRESHOLD_SPEAKERS)] * 2
    thresholds = average_thresholds(
        plda, np.concatenate(sample), names, options, np.random.default_rng(population.seed)
    )
    for_threshold = meter.read()
    trials = Trials(
        plda,
        Session(population, 0, known, 0),
        Session(population, known - overlap, unknown, 1),
        options.p_known,
        block,
        PRECISIONS[precision],
    )
    who = People(np.arange(known), np.arange(known - overlap, people))

    def shown(function: Any, items: Any) -> Any:
        return tqdm(workers(function, items), total=len(items), desc="scan", unit="slice", disable=None)

    before, start = workers.used(), time.monotonic()
    (accepted,) = scan(trials, [thresholds.mindcf.threshold], who, shown)
    seconds, after = time.monotonic() - start, workers.used()
    scheduler = workers.scheduler_used()
    cpu_seconds = sum(used.cpu_seconds - before[name].cpu_seconds for name, used in after.items() if name in before)
    comparisons = known * unknown
    return {
        "known": known,
        "unknown": unknown,
        "overlap": overlap,
        "dimension": population.dimensions,
        "rank": population.rank,
        "comparisons": comparisons,
        "block": block,
        "precision": precision,
        "threshold": thresholds.mindcf.threshold,
        "confusion_matrix": accepted.counts().matrix(),
        "threshold_seconds": for_threshold.seconds,
        "threshold_cpu_seconds": for_threshold.cpu_seconds,
        "scan_seconds": seconds,
        "comparisons_per_second": comparisons / seconds,
        "workers": len(after),
        "replaced_workers": len(before.keys() - after.keys()),
        "scan_cpu_seconds_of_workers": cpu_seconds if before.keys() == after.keys() else None,
        "peak_mib_of_workers": [used.peak_mib for used in after.values()],
        "peak_mib_of_scheduler": None if scheduler is None else scheduler.peak_mib,
    }


def compare(population: Population, known: int, unknown: int) -> dict[str, Any]:
    """Both routes on the same ``known`` x ``unknown`` people: processor seconds, largest difference of scores."""
    plda, enrolled = population_plda(population), population.recordings(0, known, 0)
    tested = population.recordings(0, unknown, 1)
    try:
        module = peer.load_peer()
    except MissingPackageError as error:
        return {"not_compared": str(error)}
    meter = Meter()
    theirs = peer.scores(module, plda, enrolled, tested, 1.0)
    of_theirs, meter = meter.read(), Meter()
    ours = score_all(plda.project(enrolled), plda.project(tested), 1.0)
    return {
        "known": known,
        "unknown": unknown,
        "speechbrain_cpu_seconds": of_theirs.cpu_seconds,
        "cpu_seconds": meter.read().cpu_seconds,
        "largest_difference": float(np.abs(ours - theirs).max()),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = Population()
    parser.add_argument("--known", type=int, default=7205, help="known speakers (default 7205)")
    parser.add_argument("--unknown", type=int, default=1000, help="unknown speakers (default 1000)")
    parser.add_argument("--overlap", type=int, default=5, help="speakers in both (default 5)")
    parser.add_argument("--dimension", type=int, default=default.dimensions)
    parser.add_argument("--rank", type=int, default=default.rank)
    parser.add_argument("--spread", type=float, default=default.spread)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-r", "--run_threshold", type=int, default=500, help="threshold runs")
    parser.add_argument("-s", "--subset", type=int, default=100, help="speakers in a threshold run")
    parser.add_argument("--block", type=int, default=BLOCK, help=f"scores held at once by a worker (default {BLOCK})")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="float32", help="of scores; counts are exact with both (float32)"
    )
    parser.add_argument(
        "--compare", type=int, nargs=2, metavar=("KNOWN", "UNKNOWN"), help="time SpeechBrain on so many"
    )
    parser.add_argument("--json", type=output, metavar="OUT", help="write the result")
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    population = population_of(arguments)
    options = ThresholdOptions(arguments.run_threshold, arguments.subset)
    sizes = (arguments.known, arguments.unknown, arguments.overlap)
    if min(arguments.known, arguments.unknown, arguments.block, *(arguments.compare or ())) < 1:
        raise StudyError("known and unknown speakers, --block and the numbers of --compare must be at least 1")
    meter, made_with = Meter(), software()
    with cluster.workers_for(arguments) as workers:
        result = measure(population, sizes, options, workers, block=arguments.block, precision=arguments.precision)
    spent = meter.read()
    result |= {"seconds": spent.seconds, "cpu_seconds": spent.cpu_seconds, "versions": made_with}
    if arguments.compare:
        result["speechbrain"] = compare(population, *arguments.compare)
    if arguments.json:
        write_json(arguments.json, result)
    print(json.dumps(finite(result), indent=1))
    return 0
