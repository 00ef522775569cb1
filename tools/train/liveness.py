"""Train, calibrate and measure the liveness model; benchmark its recipe on real replay features.

    python -m tools.train.data.liveness_set --split train --pairs 4000     (dev, test likewise)
    python -m tools.train.liveness train          fit, export, write card and report
    python -m tools.train.liveness asvspoof2017   the classifier recipe on ASVspoof2017 features

Training is on the training split's speakers, loudspeakers, rooms and microphones; settings, calibration and thresholds
come from the development split's; the report is on the test split's. Real replays are only reported.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from tools.train.asvspoof2017 import benchmark, reference_folder
from tools.train.cards import write_card
from tools.train.data.corpus import Item, read_index
from tools.train.data.liveness_set import RECORDED, cache_folder
from tools.train.export.liveness import export
from tools.train.liveness_tables import FRONTEND, Table, recorded, simulated
from tools.train.metrics import (
    apcer_at_bpcer,
    bootstrap_ci,
    cllr,
    eer,
    fit_calibration,
    threshold_at_bpcer,
    wilson_interval,
)
from tools.train.rank_svm import Committee, Member, RankTransform, block_weights
from voiceid.audio.level import SPEECH_DBFS
from voiceid.features.dynamics import SIZE as DYNAMICS_SIZE
from voiceid.features.void import SIZE as VOID_SIZE
from voiceid.models.card import SCHEMA, Calibration, Card, Threshold, TrainingData
from voiceid.types import SAMPLE_RATE

REPOSITORY = Path(__file__).resolve().parents[2]
BPCER = {"convenience": 0.005, "balanced": 0.010, "strict": 0.015}
"""Share of live development recordings that each operating point's gate may refuse."""
GRID = ((2.0, 0.3), (2.0, 0.8), (8.0, 0.3))
"""C, and gamma times the number of columns, of every machine."""
SIZE = VOID_SIZE + DYNAMICS_SIZE
GROUPS = {"void": slice(0, VOID_SIZE), "dynamics": slice(VOID_SIZE, SIZE), "all": slice(0, SIZE)}
"""Columns that machines can be made of."""
COMMITTEES = {"void-97": (("void",),), FRONTEND: (("all", "dynamics"), ("all",))}
"""Groups of columns, one machine each, to choose from by development EER."""
SIMULATED_LIVE_WEIGHT = 0.4
"""Weight in training of live speech through simulated rooms; live speech as recorded and replay weigh 1."""
MAX_BYTES = 2_200_000
"""Of support vectors, so that all models together stay within 12 MiB."""
FIELD_SETS = (
    "asterisk",
    "commonvoice-yourtts-gt",
    "libritts-yourtts-gt",
    "ls-test-clean",
    "mls-pt-yourtts-gt",
    "picovoice-commands",
    "vctk-yourtts-gt",
)
"""Real recordings of live speech: reported for false alarms, and on the development side part of the thresholds."""
FIELD_FILES = 80

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Judge = Callable[[ArrayLike], Floats]
"""Features (n, 225) to scores (n,)."""


def select(train: Table, dev: Table, committees: tuple[tuple[str, ...], ...]) -> Committee:
    """The best committee by the development EER of live speech as recorded against replay.

    First each group's machine, over the grid, then the groups among those that are small enough.
    """
    machines = {}
    transform = RankTransform.fit(train.features)
    weight = np.where(train.live & (train.scene != RECORDED), SIMULATED_LIVE_WEIGHT, 1.0)
    for group in sorted({group for groups in committees for group in groups}):
        columns = block_weights(SIZE, GROUPS, {group: 1.0})
        members = [Member(columns, c, gamma) for c, gamma in GRID]
        fitted = [m.fit(train.features, train.live, transform, weight) for m in tqdm(members, desc=group)]
        machines[group] = min(fitted, key=lambda machine: table_eer(machine, dev))
    built = [Committee(tuple(machines[group] for group in groups)) for groups in committees]
    small = [committee for committee in built if committee.size <= MAX_BYTES]
    if not small:
        raise SystemExit(f"every committee has more than {MAX_BYTES} bytes of support vectors; train on fewer pairs")
    return min(small, key=lambda committee: table_eer(committee, dev))


def table_eer(judge: Judge, table: Table) -> float:
    """EER of live speech as recorded against replay."""
    scores = judge(table.features)
    return eer(scores[table.scene == RECORDED], scores[~table.live])


def measure(judge: Judge, table: Table, thresholds: dict[str, float]) -> dict[str, Any]:
    """Error rates of live speech as recorded against simulated replay, at raw ``thresholds`` too.

    ``same_scenes`` sets live speech through the same simulated rooms and microphones against the replay instead.
    """
    scores = judge(table.features)
    as_recorded, replayed = table.scene == RECORDED, ~table.live
    in_scenes = table.live & ~as_recorded
    by = {}
    for family in sorted(set(table.loudspeaker) - {"-"}):
        mine = scores[table.loudspeaker == family]
        apcer = {point: float(np.mean(mine >= t)) for point, t in thresholds.items()}
        by[family] = {"n": len(mine), "eer": eer(scores[as_recorded], mine), "apcer": apcer}
    return {
        "protocol": "live speech as recorded against simulated replay; speakers, loudspeakers, rooms unseen",
        **_against_replay(table, scores, as_recorded, replayed, thresholds),
        "apcer": {point: float(np.mean(scores[replayed] >= t)) for point, t in thresholds.items()},
        "by": by,
        "same_scenes": _against_replay(table, scores, in_scenes, replayed, thresholds),
    }


def _against_replay(
    table: Table, scores: Floats, live: Mask, replayed: Mask, thresholds: dict[str, float]
) -> dict[str, Any]:
    bonafide, spoof = scores[live], scores[replayed]
    return {
        "eer": eer(bonafide, spoof),
        "ci95": list(bootstrap_ci(eer, (bonafide, spoof), (table.speaker[live], table.speaker[replayed]))),
        "n_bonafide": len(bonafide),
        "n_spoof": len(spoof),
        "n_speakers": len(np.unique(table.speaker[live | replayed])),
        "apcer_at_bpcer_5": apcer_at_bpcer(bonafide, spoof, 0.05),
        "bpcer": {point: float(np.mean(bonafide < t)) for point, t in thresholds.items()},
    }


def false_alarms(judge: Judge, table: Table, thresholds: dict[str, float]) -> dict[str, Any]:
    """Share of real live recordings refused, by set."""
    scores = judge(table.features)
    report: dict[str, Any] = {}
    for name in sorted(set(table.set)):
        mine = scores[table.set == name]
        refused = {point: int(np.sum(mine < t)) for point, t in thresholds.items()}
        report[name] = {
            "n": len(mine),
            "bpcer": {point: count / len(mine) for point, count in refused.items()},
            "ci95_balanced": list(wilson_interval(refused["balanced"], len(mine))),
        }
    return report


def train(options: argparse.Namespace) -> None:
    items = read_index()
    train_table, dev, test = (simulated(split) for split in ("train", "dev", "test"))
    field_dev, field_test = (recorded(live_recordings(items, s), f"recorded-{s}") for s in ("dev", "test"))
    replays = recorded([i for i in items if i.kind == "replay"], "real-replays", live=False)

    committee = select(train_table, dev, COMMITTEES["void-97" if options.void_only else FRONTEND])
    scores = committee(dev.features)
    as_recorded = scores[dev.scene == RECORDED]
    live_dev = np.concatenate((as_recorded, committee(field_dev.features)))
    scale, offset = fit_calibration(as_recorded, scores[~dev.live])
    raw = {point: threshold_at_bpcer(live_dev, bpcer) for point, bpcer in BPCER.items()}
    real = committee(replays.features)
    llr = scale * committee(test.features) + offset
    metrics = {
        **measure(committee, test, raw),
        "cllr": cllr(llr[test.scene == RECORDED], llr[~test.live]),
        "dev_eer": table_eer(committee, dev),
        "real_live_recordings": false_alarms(committee, field_test, raw),
        "real_replays_caught": {point: f"{int(np.sum(real < t))} of {len(real)}" for point, t in raw.items()},
    }
    if not options.void_only:
        alone = select(train_table, dev, COMMITTEES["void-97"])
        metrics["void_97_alone"] = {"eer": table_eer(alone, test), "dev_eer": table_eer(alone, dev)}

    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = cache_folder() / "liveness.npz"
    committee.save(checkpoint)
    metrics["export_parity"] = export(checkpoint, folder / "liveness.onnx")
    calibration = Calibration(
        scale,
        offset,
        f"{len(as_recorded)} live recordings, {int((~dev.live).sum())} simulated replays of development speakers",
    )
    thresholds = {
        point: Threshold(
            calibration(raw[point]), f"BPCER {100 * bpcer:.1f} % on {len(live_dev)} live development recordings"
        )
        for point, bpcer in BPCER.items()
    }
    path = write_card(card(train_table, committee, calibration, thresholds, metrics), folder)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(metrics, indent=1) + "\n", "utf-8")
    print(json.dumps(metrics, indent=1))
    print(f"{path}: {committee.vectors} support vectors, {(folder / 'liveness.onnx').stat().st_size / 1e6:.2f} MB")


def live_recordings(items: list[Item], split: str) -> list[Item]:
    """Genuine speech of ``split``: of each of :data:`FIELD_SETS` at most :data:`FIELD_FILES`, evenly spread."""
    chosen = []
    for name in FIELD_SETS:
        mine = [i for i in items if i.kind == "bonafide" and i.split == split and i.set == name]
        chosen += mine[:: -(-len(mine) // FIELD_FILES) or 1]
    return chosen


def card(
    table: Table,
    committee: Committee,
    calibration: Calibration,
    thresholds: dict[str, Threshold],
    metrics: dict[str, Any],
) -> Card:
    sets = ", ".join(sorted(set(table.set)))
    return Card(
        schema=SCHEMA,
        name="liveness",
        role="liveness",
        version="1.1.0",
        description="Loudspeaker replay detector: VOID-97 and band dynamics, rank-transformed, RBF-kernel SVMs",
        file="liveness.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=SAMPLE_RATE,
        frontend=FRONTEND,
        level_dbfs=SPEECH_DBFS,
        min_seconds=1.0,
        window_seconds=None,
        calibration=calibration,
        thresholds=thresholds,
        training_data=[
            TrainingData(
                f"live speech and simulated replay of the training speakers of {sets}",
                "classes A and A* (CC BY 4.0, CC0, Apache-2.0, public domain, CC BY-SA 4.0, CC BY-SA 3.0, GPL-2+)",
                f"{int(table.live.sum())} live and {int((~table.live).sum())} replayed utterances of 1 to 6 s",
            )
        ],
        metrics=metrics,
        command="python -m tools.train.liveness train",
        licence="MIT",
        parameters={"support_vectors": committee.vectors, "machines": len(committee.machines)},
    )


def asvspoof2017(options: argparse.Namespace) -> None:
    report = benchmark(options.features)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"{'recipe':28} {'held-out conf.':>14} {'train->dev':>11} {'95 % interval':>15} {'speaker-grouped':>16}")
    for name, row in report["rows"].items():
        low, high = row["train_dev_ci95"]
        print(
            f"{name:28} {row['held_out_configuration_eer']:14.1%} {row['train_dev_eer']:11.1%} "
            f"{f'{low:.1%} - {high:.1%}':>15} {row['speaker_grouped_eer']:16.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="fit, calibrate, export, write card and report")
    training.add_argument("--void-only", action="store_true", help="leave the band dynamics out")
    training.add_argument("-o", "--output", type=Path, default=REPOSITORY / "models")
    training.add_argument("--report", type=Path, default=REPOSITORY / "docs" / "reports" / "liveness.json")
    training.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="as everywhere; this runs on the CPU"
    )
    training.set_defaults(run=train)
    recipe = commands.add_parser("asvspoof2017", help="benchmark the classifier recipe on real replay features")
    recipe.add_argument("--features", type=Path, default=reference_folder())
    recipe.add_argument("--report", type=Path, default=REPOSITORY / "docs" / "reports" / "liveness-asvspoof2017.json")
    recipe.set_defaults(run=asvspoof2017)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
