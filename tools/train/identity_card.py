"""Make the identity card from a checkpoint: export, cohort, calibration on development and figures on test speakers.

The agent takes the card once ``python -m tools.train.consistency`` has added the consistency judge's entry.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from tools.train.cards import write_card
from tools.train.data.lessons import BANKS
from tools.train.data.packages import RECORDED
from tools.train.data.voices import WORD_SETS, Bank, build_bank, corpus_sources, open_bank
from tools.train.export.identity import export
from tools.train.identity import load_network
from tools.train.identity_trials import Embedding, Trials, Verification, join
from tools.train.metrics import cllr, fit_calibration
from tools.train.networks.deep_speaker import DeepSpeaker
from tools.train.teachers.campplus import CamPlusPlus, cache_folder
from voiceid.audio.level import SPEECH_DBFS
from voiceid.models.card import SCHEMA, Calibration, Card, Threshold, TrainingData, read_card
from voiceid.models.store import VerifiedModel, verify_model
from voiceid.scoring.identity import COHORT_SUFFIX, Duration, IdentityModel, Likeness, direction
from voiceid.types import SAMPLE_RATE

NAME = "identity-pi"
LENGTHS: tuple[float | None, ...] = (1.5, 2.0, 3.0, None)
FALSE_ACCEPTS = {"convenience": 0.03, "balanced": 0.01, "strict": 0.003}
COHORT_SETS = ("ls-train100-1utt",)
COHORT_BANK = "kokoro"
COHORT_SECONDS = 4.0
COHORT_LESSONS = 1500
"""Crops of one voice among the lessons that join the cohort: most of them moved voices, a third through codecs."""
COHORT_SHARDS = 15
COHORT_TOP = 200
ROUNDS = 4
"""Enrolments of each development speaker."""
USUAL_SECONDS = 3.0
"""Length of speech whose raw scores stay as they are."""
DURATIONS = 2.0, 6.0
"""Seconds that length counts from and up to: what is shorter gives strangers no more, and noise that passes for speech
costs owners no more. On development speakers 1.5 and 12 s are no better."""
LIKENESS_SHARE = 0.5
"""Of 0, .1, .2, .3, .5 and .7 the one of the least equal error rate on the development speakers."""


def evaluation_bank(split: str) -> Bank:
    """Net speech of the development or test speakers whose utterances are long enough to enrol from."""
    folder = cache_folder("identity") / "banks" / f"evaluation-{split}"
    rows = corpus_sources("dev" if split == "dev" else "test")
    build_bank(folder, [row for row in rows if row[1] and row[2] not in WORD_SETS])
    return open_bank(folder)


def make_cohort(model: IdentityModel, path: Path, lessons: str) -> int:
    """Embed one clip a voice, of licence-A training speakers and synthetic voices, and lessons, as float16 (N, d).

    ``lessons`` names their folder. Returns N.
    """
    home = cache_folder("identity") / "banks"
    rows: list[Embedding] = []
    for name, sets in (("corpus", COHORT_SETS), (COHORT_BANK, (COHORT_BANK,))):
        if not (home / name / "index.json").is_file():
            continue
        bank = open_bank(home / name)
        seen: set[str] = set()
        for clip in bank.clips:
            if clip.set in sets and clip.speaker not in seen:
                seen.add(clip.speaker)
                rows.append(model.embed(bank.samples(clip)[: int(COHORT_SECONDS * SAMPLE_RATE)]))
    folder = cache_folder("identity") / "lessons" / lessons
    rng = np.random.default_rng(0)
    for name in rng.permutation(sorted(path.name[:3] for path in folder.glob("*.label.npy")))[:COHORT_SHARDS]:
        audio, labels = np.load(folder / f"{name}.audio.npy", mmap_mode="r"), np.load(folder / f"{name}.label.npy")
        chosen = rng.permutation(np.flatnonzero(labels != ""))[: COHORT_LESSONS // COHORT_SHARDS]
        rows += [model.embed(audio[i].astype(np.float32) / 32768) for i in chosen]
    np.save(path, np.stack(rows).astype(np.float16))
    return len(rows)


def draft(network_file: str, networks: list[DeepSpeaker], front_end: str, hours: str) -> Card:
    """The card before anything is measured."""
    channels = " and of ".join("/".join(map(str, network.shape.channels)) for network in networks)
    parameters = sum(weight.numel() for network in networks for weight in network.parameters())
    return Card(
        schema=SCHEMA,
        name=NAME,
        role="identity",
        version="1.0.0",
        description=(
            f"Deep speaker ResCNN of {channels} channels ({parameters / 1e6:.2f} M parameters, convolutions in 8-bit "
            "integers) on log-mel input, "
            "mean and deviation over time, distilled from CAM++ frame by frame, levelled within speakers; "
            "192-dimensional embedding; adaptive S-norm"
        ),
        file=network_file,
        sha256="",
        inputs={},
        outputs={},
        sample_rate=SAMPLE_RATE,
        frontend=front_end,
        level_dbfs=SPEECH_DBFS,
        min_seconds=0.5,
        window_seconds=None,
        calibration=None,
        thresholds={},
        training_data=[
            TrainingData(
                "corpus, class A and A* bona fide speech of the training split", "CC BY 4.0, CC0, MIT, ...", hours
            ),
            TrainingData("CAM++ embeddings and frames of that speech (teacher)", "Apache-2.0", "of every lesson"),
            TrainingData("Kokoro synthetic voices", "Apache-2.0", "see the command"),
        ],
        metrics={},
        command="",
        licence="MIT",
    )


def recordings(lessons: str) -> list[TrainingData]:
    """The packages of whose speech these ``lessons`` were made."""
    home = cache_folder("identity")
    banks = home / "lessons" / lessons / BANKS
    if not banks.is_file() or "packages" not in json.loads(banks.read_text("utf-8")):
        return []
    lengths: Counter[str] = Counter()
    for clip in open_bank(home / "banks" / "packages").clips:
        lengths[clip.set] += clip.length
    return [
        TrainingData(f"Debian package {each.package}, recordings", each.licence, f"{minutes:.0f} minutes")
        for each in RECORDED
        if (minutes := lengths[each.package] / SAMPLE_RATE / 60)
    ]


def likeness(model: IdentityModel, development: Verification) -> Likeness:
    """What is usual, and the range, of the enrolments that ``development`` tries."""
    found = [model.likeness(each) for number in range(ROUNDS) for each in development.templates(number).values()]
    least, most = np.quantile(found, [0.05, 0.95])
    return Likeness(LIKENESS_SHARE, round(float(np.mean(found)), 4), round(float(least), 4), round(float(most), 4))


def fit_duration(trials: Trials) -> Duration:
    """How raw scores rise with the speech that is tried: by a logistic regression on both, both classes alike."""
    scores = np.concatenate([trials.target, trials.nontarget])
    seconds = np.concatenate([trials.target_seconds, trials.nontarget_seconds])
    longer = np.log(np.clip(seconds, *DURATIONS) / USUAL_SECONDS)
    label = np.repeat([1, 0], [len(trials.target), len(trials.nontarget)])
    machine = LogisticRegression(C=1e4, class_weight="balanced", max_iter=1000)
    by_score, by_length = machine.fit(np.stack([scores, longer], axis=1), label).coef_[0]
    return Duration(round(max(0.0, -float(by_length / by_score)), 4), USUAL_SECONDS, *DURATIONS)


def fit(card: Card, trials: Trials) -> Card:
    """Add the calibration and the thresholds that ``trials`` of the development speakers give."""
    scale, offset = fit_calibration(trials.target, trials.nontarget)
    speakers = len(set(trials.target_speakers))
    lengths = ", ".join(map(name_of, LENGTHS))
    description = (
        f"{len(trials.target)} target and {len(trials.nontarget)} non-target trials ({lengths}) of {speakers} "
        "development speakers, enrolled from 3 utterances"
    )
    target, nontarget = scale * trials.target + offset, scale * trials.nontarget + offset
    thresholds = {}
    for point, rate in FALSE_ACCEPTS.items():
        value = float(np.quantile(nontarget, 1 - rate))
        missed = float(np.mean(target < value))
        thresholds[point] = Threshold(round(value, 4), f"FAR {rate:.1%}, FRR {missed:.1%} on {description}")
    return replace(card, calibration=Calibration(scale, offset, description), thresholds=thresholds)


def measure(model: IdentityModel, card: Card, bank: Bank) -> dict[str, Any]:
    """Figures on the test speakers by length, and error rates at the card's thresholds."""
    verification = Verification(bank, model.embed)
    result: dict[str, Any] = {}
    calibration = card.calibration
    assert calibration is not None  # noqa: S101 - fitted just before
    for seconds in LENGTHS:
        trials = verification.run(model.score, seconds)
        target, nontarget = (calibration.scale * s + calibration.offset for s in (trials.target, trials.nontarget))
        points = {
            point: {
                "far": round(float(np.mean(nontarget >= threshold.value)), 5),
                "frr": round(float(np.mean(target < threshold.value)), 5),
            }
            for point, threshold in card.thresholds.items()
        }
        result[name_of(seconds)] = {
            **trials.metrics(),
            "cllr": round(cllr(target, nontarget), 4),
            "operating_points": points,
        }
    return result


def measure_teacher(bank: Bank) -> dict[str, Any]:
    """CAM++ on the same trials, by cosine; measured once and kept in the cache."""
    cached = cache_folder("identity") / "campplus-test.json"
    if not cached.is_file():
        verification = Verification(bank, CamPlusPlus().embed)
        figures = {name_of(seconds): verification.run(cosine, seconds).metrics() for seconds in LENGTHS}
        cached.write_text(json.dumps(figures, indent=1), "utf-8")
    result: dict[str, Any] = json.loads(cached.read_text("utf-8"))
    return result


def name_of(seconds: float | None) -> str:
    """Length of the test utterances, for tables."""
    return "whole" if seconds is None else f"{seconds:g} s"


def cosine(enrolled: Embedding, embedding: Embedding, _seconds: float) -> float:
    """Cosine of the mean of ``enrolled`` (n, d) and ``embedding`` (d,)."""
    return float(direction(enrolled) @ embedding)


def build(options: argparse.Namespace) -> VerifiedModel:
    """Export the network of the checkpoints and make its cohort; the card that lies there then has no calibration."""
    folder: Path = options.folder
    checkpoint, *others = options.checkpoints
    folder.mkdir(parents=True, exist_ok=True)
    loaded = [load_network(path) for path in options.checkpoints]
    networks, state = [network for network, _ in loaded], loaded[0][1]
    error = export(checkpoint, folder / f"{NAME}.onnx", *others, weights=options.weights)
    report = checkpoint.parent / "report.json"
    run = json.loads(report.read_text("utf-8")) if report.is_file() else {}
    hours = f"{run['hours']:.1f} h" if run else f"up to step {state['step']}"
    card = draft(f"{NAME}.onnx", networks, state["frontend"], hours)
    command = f"python -m tools.train.identity {checkpoint.parent.name}"
    if run:
        recipe = run["recipe"]
        command += f" --lessons {run['lessons']} --steps {recipe['steps']} --rate {recipe['rate']}"
        command += f" --start-from {run['start_from']}" if run.get("start_from") else ""
    names = " ".join(path.parent.name for path in options.checkpoints)
    lessons = run.get("lessons", "train")
    card = replace(
        card,
        training_data=[*card.training_data, *recordings(lessons)],
        command=f"{command}; python -m tools.train.identity_card {names}",
    )
    bare = verify_model(read_card(write_card(card, folder)), folder)
    size = make_cohort(IdentityModel(bare), folder / f"{NAME}{COHORT_SUFFIX}", lessons)
    card = replace(
        card,
        assets={f"{NAME}{COHORT_SUFFIX}": ""},
        parameters={
            "cohort_top": min(COHORT_TOP, size // 2),
            "cohort_size": size,
            "parity_error": error,
            "step": state["step"],
        },
    )
    return verify_model(read_card(write_card(card, folder)), folder)


def calibrated(model: VerifiedModel) -> tuple[Card, dict[str, Any]]:
    """The card with all that development speakers teach of its scores, and its figures on them."""
    kept = {name: value for name, value in model.card.parameters.items() if name not in ("likeness", "duration")}

    def card_with(found: dict[str, Any]) -> Card:
        return replace(model.card, parameters=kept | found)

    def judge_with(found: dict[str, Any]) -> IdentityModel:
        return IdentityModel(replace(model, card=card_with(found)))

    def trials(judge: IdentityModel) -> dict[float | None, Trials]:
        return {seconds: development.run(judge.score, seconds, rounds=ROUNDS) for seconds in LENGTHS}

    bare = judge_with({})
    development = Verification(evaluation_bank("dev"), bare.embed)
    found: dict[str, Any] = {"likeness": asdict(likeness(bare, development))}
    found["duration"] = asdict(fit_duration(join(list(trials(judge_with(found)).values()))))
    tried = trials(judge_with(found))
    figures = {
        name_of(seconds): {
            **own.metrics(),
            "eer_without_cohort": development.run(cosine, seconds, rounds=ROUNDS).metrics()["eer"],
        }
        for seconds, own in tried.items()
    }
    return fit(card_with(found), join(list(tried.values()))), figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkpoints",
        type=Path,
        nargs="*",
        help="of one network or of a committee; without any the card in the folder keeps its network and cohort, and "
        "is calibrated and measured anew",
    )
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where model, cohort and card go")
    parser.add_argument("--weights", choices=["int8", "float16", "float32"], default="int8")
    parser.add_argument("--version", help="of the card (default: 1.0.0 with checkpoints, else what it has)")
    parser.add_argument("--teacher", action="store_true", help="measure CAM++ on the same test trials too")
    parser.add_argument("--no-test", action="store_true", help="leave out the figures on test speakers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder: Path = options.folder
    model = build(options) if options.checkpoints else verify_model(read_card(folder / f"{NAME}.json"), folder)
    card, development = calibrated(model)
    card = replace(card, version=options.version or card.version)
    metrics: dict[str, Any] = {"development": development}
    if not options.no_test:
        metrics["test"] = measure(IdentityModel(replace(model, card=card)), card, evaluation_bank("test"))
    if options.teacher:
        metrics["campplus_on_the_same_trials"] = measure_teacher(evaluation_bank("test"))
    write_card(replace(card, metrics=metrics), folder)
    print(json.dumps({"thresholds": {n: t.value for n, t in card.thresholds.items()}, **metrics}, indent=1))


if __name__ == "__main__":
    main()
