"""Fit the consistency judge of an identity card on development speakers: genuine commands against spliced ones.

A spliced command opens with 0.8 to 2 s of the enrolled speaker and goes on in another voice (or the other way round),
both from the development split. The fit goes into the card's ``parameters["consistency"]``, test figures into its
metrics; those of the utterance alone, without an enrolled speaker, under ``alone`` in both.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.cards import write_card
from tools.train.data.corpus import Item, Split, read_index
from tools.train.metrics import apcer_at_bpcer, bootstrap_ci, eer, fit_calibration, threshold_at_bpcer
from voiceid.audio import prepare, read_waveform
from voiceid.audio.level import apply_level
from voiceid.audio.vad import speech_segments
from voiceid.models.card import Calibration, Threshold, read_card
from voiceid.models.store import verify_model
from voiceid.scoring.consistency import ConsistencyParameters, Gate, consistency_score
from voiceid.scoring.identity import IdentityModel, direction
from voiceid.scoring.voice import hear
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

Embedding = NDArray[np.float32]
GATES = {"convenience": 0.005, "balanced": 0.015, "strict": 0.025}
"""Share of genuine commands that the gate may refuse, by operating point."""
ENROLLED = 3
"""Utterances of a speaker that make the reference."""
MIN_UTTERANCES = 6
HOP, HOP_OF_SLICES = 0.16, 0.48
"""Seconds between boundaries: for a network that embeds all sides in one pass, and for one that runs on each."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Raw scores of one kind; not a number where the utterance is too short."""

    genuine: NDArray[np.float64]
    genuine_speakers: list[str]
    spliced: NDArray[np.float64]
    spliced_speakers: list[str]
    strangers: NDArray[np.float64]
    """Other people who speak throughout, whom the judge should leave to the identity judge."""

    def filled(self, undivided: float) -> Scores:
        """With ``undivided`` for utterances too short to hold a change."""
        parts = (np.nan_to_num(part, nan=undivided) for part in (self.genuine, self.spliced, self.strangers))
        genuine, spliced, strangers = parts
        return Scores(genuine, self.genuine_speakers, spliced, self.spliced_speakers, strangers)


def speakers_of(split: Split, *, seconds: float) -> dict[str, list[Item]]:
    """Speakers of ``split`` with enough utterances of at least ``seconds``."""
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in read_index():
        if item.kind == "bonafide" and item.speaker and item.seconds >= seconds and item.split == split:
            groups[item.speaker].append(item)
    return {name: items for name, items in sorted(groups.items()) if len(items) >= MIN_UTTERANCES}


def score_trials(
    model: IdentityModel, split: Split, *, least: float, hop: float, trials: int, rounds: int, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """Score ``rounds`` times up to ``trials`` genuine, spliced and strangers' commands of 2 to 5 s a speaker.

    Each round enrols from other utterances and cuts and splices anew. Gives the scores with the enrolled speaker of
    each trial, and those of the utterance alone.
    """
    speakers = speakers_of(split, seconds=3.0)
    speech = {
        name: [_read(items[i]) for i in rng.permutation(len(items))[: ENROLLED + trials]]
        for name, items in tqdm(speakers.items(), desc=f"read {split}")
    }
    scores: dict[str, list[tuple[float, float]]] = {"genuine": [], "spliced": [], "strangers": []}
    of: list[str] = []
    for name, clips in tqdm([*speech.items()] * rounds, desc=f"score {split}"):
        clips = [clips[i] for i in rng.permutation(len(clips))]
        reference = direction(np.stack([model.embed(clip) for clip in clips[:ENROLLED]]))
        others = [other for other in speech if other != name]
        for clip in clips[ENROLLED:]:
            stranger = speech[others[int(rng.integers(len(others)))]]
            other_clip = stranger[int(rng.integers(len(stranger)))]
            wake, command = _crop(clip, rng.uniform(0.8, 2.0), rng), _crop(other_clip, rng.uniform(1.0, 3.0), rng)
            made = {
                "genuine": _crop(clip, rng.uniform(2.0, 5.0), rng),
                "spliced": np.concatenate((wake, command) if rng.random() < 0.75 else (command, wake)),
                "strangers": _crop(other_clip, rng.uniform(2.0, 5.0), rng),
            }
            of.append(name)
            for kind, samples in made.items():
                scores[kind].append(_scores(model, samples, reference, least, hop))
    enrolled, alone = ({kind: np.array(pairs)[:, i] for kind, pairs in scores.items()} for i in range(2))
    return _trials(enrolled, of), _trials(alone, of)


def _trials(values: dict[str, NDArray[np.float64]], of: list[str]) -> Scores:
    return Scores(values["genuine"], of, values["spliced"], of, values["strangers"])


def _read(item: Item) -> Samples:
    return prepare(read_waveform(item.path)).samples


def _crop(samples: Samples, seconds: float, rng: np.random.Generator) -> Samples:
    length = min(len(samples), int(seconds * SAMPLE_RATE))
    start = int(rng.integers(0, len(samples) - length + 1))
    crop = samples[start : start + length]
    return apply_level(crop, speech_segments(crop))


def _scores(
    model: IdentityModel, samples: Samples, reference: Embedding, least: float, hop: float
) -> tuple[float, float]:
    """Raw scores with the enrolled speaker ``reference``, and of the utterance alone."""
    voice = hear(model, prepare(Waveform(samples, Source.FILE)), least_seconds=least, hop_seconds=hop)
    enrolled, alone = (consistency_score(voice, speaker, model.scores) for speaker in (reference, None))
    return (np.nan, np.nan) if enrolled is None or alone is None else (enrolled, alone)


def fit_gate(dev: Scores, test: Scores) -> tuple[Gate, dict[str, Any]]:
    """The gate fitted on ``dev``, and its figures on ``test``."""
    undivided = float(np.nanmedian(dev.genuine))
    dev, test = dev.filled(undivided), test.filled(undivided)
    scale, offset = fit_calibration(dev.genuine, dev.spliced)
    description = (
        f"{len(dev.genuine)} genuine and {len(dev.spliced)} spliced commands "
        f"of {len(set(dev.genuine_speakers))} development speakers"
    )
    gate = Gate(
        undivided=round(undivided, 4),
        calibration=Calibration(scale, offset, description),
        thresholds={
            point: Threshold(
                scale * threshold_at_bpcer(dev.genuine, rate) + offset, f"BPCER {rate:.1%} on {description}"
            )
            for point, rate in GATES.items()
        },
    )
    caught = {
        point: {
            "bpcer": float(np.mean(scale * test.genuine + offset < gate.thresholds[point].value)),
            "apcer": float(np.mean(scale * test.spliced + offset >= gate.thresholds[point].value)),
            "strangers": float(np.mean(scale * test.strangers + offset < gate.thresholds[point].value)),
        }
        for point in GATES
    }
    low, high = bootstrap_ci(
        eer,
        (test.genuine, test.spliced),
        (test.genuine_speakers, test.spliced_speakers),
    )
    return gate, {
        "test_eer": eer(test.genuine, test.spliced),
        "ci95": [low, high],
        "n_bonafide": len(test.genuine),
        "n_spoof": len(test.spliced),
        "speakers": len(set(test.genuine_speakers)),
        "apcer_at_bpcer_5": apcer_at_bpcer(test.genuine, test.spliced, 0.05),
        "operating_points": caught,
        "dev_eer": eer(dev.genuine, dev.spliced),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", type=Path, default=Path("models/identity-pi.json"), help="identity card to fit")
    parser.add_argument("--least", type=float, default=0.8, help="seconds on each side of a boundary")
    parser.add_argument(
        "--hop", type=float, help=f"seconds between boundaries (default: {HOP} in one pass, else {HOP_OF_SLICES})"
    )
    parser.add_argument("--trials", type=int, default=40, help="trials of each kind a speaker and round")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of trials, each with other cuts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true", help="print, but leave the card as it is")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    card = read_card(args.card)
    model = IdentityModel(verify_model(card, args.card.parent), threads=1)
    hop = args.hop or (HOP if model.one_pass else HOP_OF_SLICES)
    dev, test = (
        score_trials(model, split, least=args.least, hop=hop, trials=args.trials, rounds=args.rounds, rng=rng)
        for split in ("dev", "test")
    )
    (gate, metrics), (alone, alone_metrics) = (fit_gate(*pair) for pair in zip(dev, test, strict=True))
    parameters = ConsistencyParameters(
        gate.undivided, gate.calibration, gate.thresholds, least_seconds=args.least, hop_seconds=hop, alone=alone
    )
    metrics["alone"] = alone_metrics
    print(json.dumps(metrics, indent=1))
    if not args.dry_run:
        write_card(
            dataclasses.replace(
                card,
                parameters={**card.parameters, "consistency": asdict(parameters)},
                metrics={**card.metrics, "consistency": metrics},
            ),
            args.card.parent,
        )


if __name__ == "__main__":
    main()
