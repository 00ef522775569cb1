"""Compare what a data holder might share: recordings, speaker embeddings, or units under each privacy profile.

Each representation of the same recordings goes through the same splits, PLDA and thresholds. The rest of an envelope
(credential id, counter, time) says nothing of the voice; its credential id links a person's envelopes by design.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.output import output
from tools.studies import cluster
from tools.studies.errors import StudyError
from tools.studies.reidentification import config, embed
from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.emitted import EMBEDDING, REPRESENTATIONS, Emitted
from tools.studies.reidentification.pool import load_pool
from tools.studies.reidentification.recordings import find_audio
from tools.studies.reidentification.reidentify import JSON_CELLS, PldaOptions, add_plda_arguments, plda_options
from tools.studies.reidentification.scan import Apply
from tools.studies.reidentification.split import SplitOptions, find_all
from tools.studies.reidentification.sweep import Cell, Runs, sweep, write_table
from tools.studies.results import finite, write_json
from tools.studies.study_file import options_of


def compare(
    recordings: Path,
    folder: Path,
    representations: Sequence[str],
    cell: Cell,
    runs: int,
    options: PldaOptions,
    model: embed.Model,
    apply: Apply = map,
) -> dict[str, Any]:
    """Measure each representation of the recordings (SPEAKER/FILE below ``recordings``) in ``runs`` runs of ``cell``.

    All are reduced to ``options.dimensions`` principal components of the known speakers, if that is set.

    Raises:
        StudyError: thresholds of one kind only, nobody overlaps, or too many comparisons.
    """
    if options.th is not None or options.th_func != "both":
        raise StudyError("the comparison needs both thresholds: leave --th and --th_func away")
    if not cell.overlap or cell.known * cell.unknown > JSON_CELLS:
        raise StudyError(
            f"{cell.overlap} overlapping of {cell.known} known and {cell.unknown} unknown speakers; "
            f"the comparison needs overlapping ones and at most {JSON_CELLS:,} comparisons"
        )
    names = find_audio(recordings, None)
    result: dict[str, Any] = {}
    for name in representations:
        vectors = folder / name
        maker = model if name == EMBEDDING else Emitted(name)
        failed = embed.embed_all(recordings, vectors, names, maker, apply)
        pool = load_pool(find_all([vectors], ["generic"], None), folder / "cache")
        job = Runs(pool, SplitOptions(), options, folder)
        rows = sweep([replace(cell, experiment=name)], runs, job, apply)
        write_table(folder / f"{name}.csv", rows)
        result[name] = {
            "made_with": maker.describe(),
            "failed": len(failed),
            "recordings": len(names) - len(failed),
            **summarise(rows),
        }
    return result


def summarise(rows: Sequence[dict[str, str]]) -> dict[str, float]:
    """Means over runs. Without a threshold: ``eer`` of all comparisons, ``identified``, the share of overlapping
    speakers who score best as themselves. At the strict threshold: true and false acceptances, and the share of
    overlapping speakers ``found`` when as many matches are taken as speakers overlap."""
    strict = [Counts.parse(row["mindcf_confusion"]) for row in rows]
    limited = [Counts.parse(row["known_confusion"]) for row in rows]
    return {
        "runs": len(rows),
        "comparisons": strict[0].comparisons,
        "eer": float(np.mean([float(row["trial_eer"]) for row in rows])),
        "identified": float(np.mean([float(row["identified"]) for row in rows])),
        "true_acceptances": float(np.mean([c.true_acceptances for c in strict])),
        "false_acceptances": float(np.mean([c.false_acceptances for c in strict])),
        "found": float(np.mean([c.recall for c in limited])),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input_dir", type=Path, required=True, help="folder of recordings, SPEAKER/FILE")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for vectors, runs and tables")
    parser.add_argument(
        "--representations", nargs="+", default=(EMBEDDING, *REPRESENTATIONS), choices=(EMBEDDING, *REPRESENTATIONS)
    )
    parser.add_argument("--known", type=int, required=True, help="known speakers")
    parser.add_argument("--unknown", type=int, required=True, help="unknown speakers")
    parser.add_argument("--overlap", type=int, default=5, help="speakers in both (default 5)")
    parser.add_argument("--runs", type=int, default=10, help="splits, the same for all (default 10)")
    parser.add_argument("--json", type=output, metavar="OUT", help="write the result")
    add_plda_arguments(parser)
    embed.add_model_arguments(parser)
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    options = plda_options(arguments)
    chosen = options_of(config.Risk, arguments)
    config.check_representations(chosen.representations, "options")
    cell = Cell("", chosen.known, chosen.unknown, chosen.overlap)
    with cluster.workers_for(arguments) as workers:
        result = compare(
            arguments.input_dir,
            arguments.output_dir,
            chosen.representations,
            cell,
            chosen.runs,
            options,
            embed.model_from(arguments),
            workers,
        )
    if arguments.json:
        write_json(arguments.json, result)
    print(json.dumps(finite(result), indent=1))
    return 0
