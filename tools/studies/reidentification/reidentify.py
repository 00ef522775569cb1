"""Re-identify the unknown speakers of a split: train PLDA on the known, find thresholds, score, count, write."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from tools.studies.errors import StudyError
from tools.studies.reidentification.acceptances import Acceptances, People
from tools.studies.reidentification.dataset import Dataset, load_dataset
from tools.studies.reidentification.experiments import add_experiment
from tools.studies.reidentification.plda import ITERATIONS, RANK, Floats, Plda, train_plda
from tools.studies.reidentification.scan import Held, Trials, scan, score_all
from tools.studies.reidentification.thresholds import (
    RELAXED,
    STRICT,
    Averaged,
    Costs,
    ThresholdOptions,
    average_thresholds,
)
from tools.studies.results import whole_file, write_json
from tools.studies.study_file import AtLeast, Count, Probability, Seed, options_of
from voiceid.tables import Finite

JSON_CELLS = 2_000_000
"""Matrices with more comparisons are written as .npy files beside the JSON, which then names them."""


@dataclass(frozen=True, slots=True)
class PldaOptions:
    """Everything that a run depends on besides its data; names as on the command line."""

    plda_rank: Count = RANK
    iterations: Count = ITERATIONS
    dimensions: Count | None = None
    """Principal components kept before PLDA; all by default."""
    th_func: Literal["eer", "mindcf", "both"] = "both"
    th: Annotated[float, Finite()] | None = None
    """A manual threshold instead."""
    run_threshold: Count = 500
    subset: Annotated[int, AtLeast(2)] = 100
    c_fa: Annotated[float, AtLeast(0)] = STRICT.c_fa
    c_miss: Annotated[float, AtLeast(0)] = STRICT.c_miss
    p_target: Probability = STRICT.p_target
    p_known: Probability = 1.0
    beta: Annotated[float, AtLeast(0)] = 1.0
    seed: Seed = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        if self.th is not None:
            return ("manual",)
        return ("eer", "mindcf") if self.th_func == "both" else (self.th_func,)

    @property
    def prefix(self) -> str:
        return "manual" if self.th is not None else self.th_func


@dataclass(frozen=True, slots=True)
class Risk:
    """Outcome of a run. ``thresholds`` and ``acceptances`` by kind; a manual threshold has no average behind it."""

    trials: Trials
    names: tuple[list[str], list[str]]
    people: People
    thresholds: dict[str, float]
    averaged: dict[str, Averaged]
    skipped: int
    acceptances: dict[str, Acceptances]


def reidentify(data: Dataset, options: PldaOptions) -> Risk:
    """Train on the known speakers' recordings, enrol their means, and try the unknown speakers' means against them."""
    data = data if options.dimensions is None else reduced(data, options.dimensions)
    plda = train_plda(data.known_embeddings, data.known, rank=options.plda_rank, iterations=options.iterations)
    averaged, skipped = _thresholds(plda, data, options)
    thresholds = {kind: average.threshold for kind, average in averaged.items()}
    if options.th is not None:
        thresholds = {"manual": options.th}
    enrolled, known, tested, unknown = data.averaged()
    people = data.people()
    trials = Trials(plda, Held(enrolled), Held(tested), options.p_known)
    accepted = scan(trials, list(thresholds.values()), people)
    return Risk(
        trials,
        (known, unknown),
        people,
        thresholds,
        averaged,
        skipped,
        dict(zip(thresholds, accepted, strict=True)),
    )


def reduced(data: Dataset, dimensions: int) -> Dataset:
    """``data`` on the principal components of the known embeddings, whitened.

    Raises:
        StudyError: more dimensions than the known embeddings span.
    """
    mean = data.known_embeddings.mean(axis=0)
    _, scale, directions = np.linalg.svd(data.known_embeddings - mean, full_matrices=False)
    if not 1 <= dimensions <= int((scale > 1e-9 * scale[0]).sum()):
        raise StudyError(f"{dimensions} dimensions; the known embeddings span {int((scale > 1e-9 * scale[0]).sum())}")
    basis = directions[:dimensions].T / scale[:dimensions] * np.sqrt(len(data.known_embeddings))
    return Dataset(
        (data.known_embeddings - mean) @ basis,
        data.known,
        (data.unknown_embeddings - mean) @ basis,
        data.unknown,
        data.owners,
    )


def _thresholds(plda: Plda, data: Dataset, options: PldaOptions) -> tuple[dict[str, Averaged], int]:
    if options.th is not None:
        return {}, 0
    found = average_thresholds(
        plda,
        data.known_embeddings,
        data.known,
        ThresholdOptions(
            options.run_threshold,
            options.subset,
            Costs(options.c_fa, options.c_miss, options.p_target),
            options.p_known,
        ),
        np.random.default_rng(options.seed),
    )
    return {kind: getattr(found, kind) for kind in options.kinds}, found.skipped


def metrics_content(risk: Risk, beta: float) -> dict[str, Any]:
    """The metrics file: each measure by kind of threshold, or plainly where there is one kind."""
    by_kind = {kind: accepted.counts().measures(beta) for kind, accepted in risk.acceptances.items()}
    if len(by_kind) == 1:
        return dict(next(iter(by_kind.values())))
    names = next(iter(by_kind.values()))
    return {name: {kind: measures[name] for kind, measures in by_kind.items()} for name in names}


def data_content(risk: Risk, options: PldaOptions, matrices: dict[str, Any]) -> dict[str, Any]:
    """The data file; ``matrices`` are scores, actual and predicted labels, as lists or as names of .npy files."""
    known, unknown = risk.names
    kinds = list(risk.thresholds)
    single = len(kinds) == 1
    content = {
        "actual_labels": matrices["actual"],
        "predicted_labels": matrices[kinds[0]] if single else {kind: matrices[kind] for kind in kinds},
        "train_speakers": known,
        "test_speakers": unknown,
        "plda_scores": [{"scores": matrices["scores"], "modelset": known, "segset": unknown}],
        "args": [
            {
                "run_thres": options.run_threshold,
                "subset": options.subset,
                "plda_rank": options.plda_rank,
                "iterations": options.iterations,
                "dimensions": options.dimensions,
                "c_fa": options.c_fa,
                "c_miss": options.c_miss,
                "p_target": options.p_target,
                "p_known": options.p_known,
                "seed": options.seed,
                "skipped_runs": risk.skipped,
            }
        ],
        "average_th": risk.thresholds[kinds[0]] if single else risk.thresholds,
    }
    if single and kinds[0] in risk.averaged:
        average = risk.averaged[kinds[0]]
        content |= {"threshold_list": average.thresholds, "calc": average.values, "avg_calc": average.value}
    elif risk.averaged:
        eer, mindcf = risk.averaged["eer"], risk.averaged["mindcf"]
        content |= {
            "threshold_list": {"eer": eer.thresholds, "mindcf": mindcf.thresholds},
            "eer": eer.values,
            "avg_eer": eer.value,
            "min_dcf": mindcf.values,
            "min_dcf_avg": mindcf.value,
        }
    return content


def write_results(risk: Risk, options: PldaOptions, stem: Path) -> tuple[Path, Path]:
    """Write STEMdata.json and STEMmetrics.json (last: where it lies, the run is complete). Returns both paths."""
    data, metrics = stem.with_name(stem.name + "data.json"), stem.with_name(stem.name + "metrics.json")
    scores = score_all(*risk.trials.portion(slice(None)), options.p_known)
    arrays: dict[str, Any] = {"scores": scores, "actual": risk.people.known[:, None] == risk.people.unknown}
    arrays |= {kind: scores > threshold for kind, threshold in risk.thresholds.items()}
    if scores.size > JSON_CELLS:
        arrays = {name: _save(stem.with_name(f"{stem.name}{name}.npy"), array) for name, array in arrays.items()}
    write_json(data, data_content(risk, options, arrays))
    write_json(metrics, metrics_content(risk, options.beta))
    return data, metrics


def _save(path: Path, array: Floats) -> str:
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)
    return path.name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--dataset", type=Path, required=True, help="a split (CSV)")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for the JSON results")
    parser.add_argument("-e", "--experiment_dir", type=Path, help="folder of experiments.csv, one line a run")
    parser.add_argument("-n", "--overlap", type=int, help="overlapping speakers that the split must have")
    add_plda_arguments(parser)


def add_plda_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of :class:`PldaOptions`."""
    default = PldaOptions()
    parser.add_argument("-p", "--plda_rank", type=int, default=default.plda_rank, help="default 100")
    parser.add_argument("--iterations", type=int, default=default.iterations, help="of expectation-maximisation")
    parser.add_argument("--dimensions", type=int, help="principal components kept before PLDA (default: all)")
    parser.add_argument("-t", "--th_func", choices=("eer", "mindcf", "both"), default=default.th_func)
    parser.add_argument("-th", "--th", type=float, help="manual threshold instead")
    parser.add_argument("-r", "--run_threshold", type=int, default=default.run_threshold, help="threshold runs")
    parser.add_argument("-s", "--subset", type=int, default=default.subset, help="speakers in a threshold run")
    parser.add_argument("--relaxed", action="store_true", help="costs 1, 1 and prior 0.1 instead of 10, 0.1 and 0.001")
    parser.add_argument("-cf", "--c_fa", type=float, help="cost of a false acceptance")
    parser.add_argument("-cm", "--c_miss", type=float, help="cost of a false rejection")
    parser.add_argument("-pt", "--p_target", type=float, help="prior probability of a target")
    parser.add_argument("-pk", "--p_known", type=float, default=default.p_known, help="probability of a known speaker")
    parser.add_argument("-b", "--beta", type=float, default=default.beta, help="of the F score")
    parser.add_argument("--seed", type=int, default=default.seed)


def plda_options(arguments: argparse.Namespace) -> PldaOptions:
    """Raises StudyError for an impossible value."""
    costs = asdict(RELAXED if arguments.relaxed else STRICT)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return options_of(PldaOptions, argparse.Namespace(**costs | given))


def run(arguments: argparse.Namespace) -> int:
    options = plda_options(arguments)
    data = load_dataset(arguments.dataset)
    overlap = int(data.people().overlapping.sum())
    if arguments.overlap not in (None, overlap):
        raise StudyError(f"{arguments.dataset} has {overlap} overlapping speakers, not {arguments.overlap} (--overlap)")
    risk = reidentify(data, options)
    name = f"{options.prefix}_{arguments.dataset.stem}_r{options.run_threshold}_s{options.subset}"
    paths = write_results(risk, options, arguments.output_dir / name)
    if arguments.experiment_dir:
        add_experiment(arguments.experiment_dir, options.prefix, arguments.dataset, paths, _summary(risk, options.beta))
    for kind, accepted in risk.acceptances.items():
        print(f"{kind}: threshold {risk.thresholds[kind]:.4g}, {describe(accepted)}")
    print(*paths, sep="\n")
    return 0


def describe(accepted: Acceptances) -> str:
    counts = accepted.counts()
    return (
        f"{counts.true_acceptances} true and {counts.false_acceptances} false acceptances, "
        f"{counts.false_rejections} false rejections in {counts.comparisons:,} comparisons"
    )


def _summary(risk: Risk, beta: float) -> dict[str, dict[str, Any]]:
    return {
        kind: {
            **accepted.counts().measures(beta),
            "threshold": risk.thresholds[kind],
            "average": risk.averaged[kind].value if kind in risk.averaged else None,
        }
        for kind, accepted in risk.acceptances.items()
    }
