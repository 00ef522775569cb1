"""The whole study from one TOML file: prepare, embed, split, PLDA, metrics, sweeps, tables, figures, summary.

Whatever was done before with the same inputs and options is kept, so that an interrupted study goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tools.studies import cluster
from tools.studies.reidentification import config, embed, plot
from tools.studies.reidentification.corpus import choose, corpus_index, lay_out
from tools.studies.reidentification.pool import Pool, load_pool
from tools.studies.reidentification.preprocess import PreprocessOptions, Processing, preprocess
from tools.studies.reidentification.recordings import find_audio
from tools.studies.reidentification.risk import compare
from tools.studies.reidentification.scan import Apply
from tools.studies.reidentification.silence import SilenceOptions
from tools.studies.reidentification.split import SplitOptions, find_all
from tools.studies.reidentification.sweep import SYNTHETIC_SESSIONS, Cell, Runs, design, sweep, write_table
from tools.studies.reidentification.synthetic import synthetic_pool
from tools.studies.reidentification.tables import averages, correlate, read_runs
from tools.studies.results import claim, finite, write_json
from tools.studies.versions import software


def run_study(study: config.Study, apply: Apply = map) -> dict[str, Any]:
    """Do all of ``study``; returns the summary that is written to summary.json."""
    if study.corpus:
        study = replace(study, recordings=_lay_out(study.corpus, study.output / "recordings"), corpus=())
    summary = {
        "study": json.loads(json.dumps(asdict(study), default=str)),
        "failed": [],
        "experiments": {},
        "versions": software(),
        **(_sweep(study, apply) if study.sweeps else {}),
        **({"risk": _risk(study, study.risk, apply)} if study.risk else {}),
    }
    write_json(study.output / "summary.json", summary)
    return summary


def _lay_out(parts: Sequence[config.FromCorpus], folder: Path) -> Path:
    claim(folder, {"corpus": [asdict(one) for one in parts]})
    for one in parts:
        lay_out(choose(corpus_index(), one), folder, one.seconds, keep=True)
    return folder


def _sweep(study: config.Study, apply: Apply) -> dict[str, Any]:
    """All designs, their tables and figures."""
    pool, failed = make_pool(study, apply)
    tables = {}
    for one in study.sweeps:
        job = Runs(pool, SplitOptions(files=one.num_files), study.plda, study.output)
        tables[one.experiment] = study.output / f"{one.experiment}.csv"
        write_table(tables[one.experiment], sweep(design(one), one.runs, job, apply))
    drawn = draw(list(tables.values()), study.output / "figures") if study.plda.prefix in ("both", "mindcf") else []
    return {
        "data": pool.key,
        "failed": list(failed),
        "experiments": {name: summarise(path) for name, path in tables.items()} if drawn else {},
        "figures": [str(path) for path in drawn],
    }


def _risk(study: config.Study, risk: config.Risk, apply: Apply) -> dict[str, Any]:
    cell = Cell("", risk.known, risk.unknown, risk.overlap)
    folder, recordings = study.output / "risk", study.recordings or Path()
    return compare(recordings, folder, risk.representations, cell, risk.runs, study.plda, _model(study), apply)


def _model(study: config.Study) -> embed.Model:
    return embed.Ecapa(study.ecapa) if study.ecapa else embed.IdentityCard(study.card)


def make_pool(study: config.Study, apply: Apply) -> tuple[Pool, Sequence[str]]:
    """The embeddings that the study starts from, or makes; and the recordings that gave none, with the reasons."""
    cache = study.output / "cache"
    if study.synthetic is not None:
        of = study.synthetic
        return synthetic_pool(of.population, of.speakers, SYNTHETIC_SESSIONS, cache), []
    if study.recordings is None:
        return load_pool(find_all([study.embeddings or Path()], [study.data], study.dataset), cache), []
    prepared, failed = study.recordings, []
    if not study.preprocess.skip_audio:
        prepared = study.output / "audio"
        options = PreprocessOptions(
            study.preprocess.silence_threshold,
            study.preprocess.remove_all,
            study.preprocess.split,
            replace(SilenceOptions(), min_silence=study.preprocess.min_silence),
        )
        names = find_audio(study.recordings, None)
        failed += preprocess(names, Processing(study.recordings, prepared, options), apply)
    vectors = study.output / "embeddings"
    failed += embed.embed_all(prepared, vectors, find_audio(prepared, None), _model(study), apply)
    return load_pool(find_all([vectors], [study.data], study.dataset), cache), failed


def draw(tables: Sequence[Path], folder: Path) -> list[Path]:
    """The figures of all tables together."""
    return plot.draw([run for table in tables for run in read_runs(table)], folder)


def summarise(table: Path) -> dict[str, Any]:
    """Averages by comparisons and task, and how false acceptances go with comparisons."""
    runs = read_runs(table)
    found = correlate(runs, lambda run: run.comparisons, lambda run: run.counts.false_acceptances)
    by_size = averages(runs, lambda run: f"{run.known} x {run.unknown} ({run.overlap}), {run.task}")
    return {"averages": by_size, "correlation": asdict(found)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")


def run(arguments: argparse.Namespace) -> int:
    study = config.read_study(arguments.study)
    workers = study.workers
    with cluster.open_workers(workers.scheduler, workers.workers, workers.memory) as apply:
        summary = run_study(study, apply)
    print(json.dumps(finite(summary["experiments"] | summary.get("risk", {})), indent=1))
    return embed.report(summary["failed"])
