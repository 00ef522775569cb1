"""Fit the consistency judge of an identity card on development speakers: genuine commands against spliced ones.

A spliced command opens with 0.8 to 2 s of the enrolled speaker and goes on in another voice (or the other way round),
both from the development split. The fit goes into the card's ``parameters["consistency"]``, test figures into its
metrics; those of the utterance alone, without an enrolled speaker, under ``alone`` in both, and under ``takeover``
those of splices against strangers among the commands that the identity judge refuses.
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
from voiceid.scoring.consistency import ConsistencyParameters, Gate, consistency_score, takeover_score
from voiceid.scoring.identity import IdentityModel, direction
from voiceid.scoring.voice import hear
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

Embedding = NDArray[np.float32]
GATES = {"convenience": 0.005, "balanced": 0.015, "strict": 0.025}
"""Share of undivided commands that a gate may refuse, by operating point: the owner's; strangers' for ``takeover``."""
ENROLLED = 3
"""Utterances of a speaker that make the reference."""
MIN_UTTERANCES = 6
HOP, HOP_OF_SLICES = 0.16, 0.48
"""Seconds between boundaries: for a network that embeds all sides in one pass, and for one that runs on each."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Raw scores of one measure; not a number where the utterance is too short."""

    undivided: NDArray[np.float64]
    """Of the commands that the gate is to let pass: the enrolled speaker's, or of *takeover* strangers'."""
    undivided_speakers: list[str]
    spliced: NDArray[np.float64]
    spliced_speakers: list[str]
    others: NDArray[np.float64]
    """The other undivided commands: strangers', whom the judge should leave to the identity judge, or the owner's."""

    def filled(self, undivided: float) -> Scores:
        """With ``undivided`` for utterances too short to hold a change."""
        whole, spliced, others = (
            np.nan_to_num(part, nan=undivided) for part in (self.undivided, self.spliced, self.others)
        )
        return Scores(whole, self.undivided_speakers, spliced, self.spliced_speakers, others)


@dataclass(frozen=True, slots=True)
class Measures:
    """Raw scores of one command: with the enrolled speaker, of the utterance alone, and of a takeover."""

    enrolled: float
    alone: float
    takeover: float
    refused: bool
    """By the identity judge at its balanced point; only then the agent asks for a takeover."""


def speakers_of(split: Split, *, seconds: float) -> dict[str, list[Item]]:
    """Speakers of ``split`` with enough utterances of at least ``seconds``."""
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in read_index():
        if item.kind == "bonafide" and item.speaker and item.seconds >= seconds and item.split == split:
            groups[item.speaker].append(item)
    return {name: items for name, items in sorted(groups.items()) if len(items) >= MIN_UTTERANCES}


def score_trials(
    model: IdentityModel, split: Split, *, least: float, hop: float, trials: int, rounds: int, rng: np.random.Generator
) -> dict[str, Scores]:
    """Score ``rounds`` times up to ``trials`` genuine, spliced and strangers' commands of 2 to 5 s a speaker.

    Each round enrols from other utterances and cuts and splices anew. Gives the scores by measure.
    """
    speakers = speakers_of(split, seconds=3.0)
    speech = {
        name: [_read(items[i]) for i in rng.permutation(len(items))[: ENROLLED + trials]]
        for name, items in tqdm(speakers.items(), desc=f"read {split}")
    }
    found: dict[str, list[Measures]] = {"genuine": [], "spliced": [], "strangers": []}
    of: list[str] = []
    for name, clips in tqdm([*speech.items()] * rounds, desc=f"score {split}"):
        clips = [clips[i] for i in rng.permutation(len(clips))]
        enrolled = np.stack([model.embed(clip) for clip in clips[:ENROLLED]])
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
                found[kind].append(_measures(model, samples, enrolled, least, hop))
    return {
        "enrolled": _scores(found, of, "enrolled"),
        "alone": _scores(found, of, "alone"),
        "takeover": _scores(found, of, "takeover", undivided="strangers", others="genuine", refused=True),
    }


def _scores(
    found: dict[str, list[Measures]], of: list[str], measure: str, *,
    undivided: str = "genuine", others: str = "strangers", refused: bool = False,
) -> Scores:  # fmt: skip
    """The scores by ``measure``, with ``refused`` only of what the identity judge refuses."""

    def taken(kind: str) -> tuple[NDArray[np.float64], list[str]]:
        rows = [i for i, one in enumerate(found[kind]) if one.refused or not refused]
        return np.array([getattr(found[kind][i], measure) for i in rows], float), [of[i] for i in rows]

    return Scores(*taken(undivided), *taken("spliced"), taken(others)[0])


def _read(item: Item) -> Samples:
    return prepare(read_waveform(item.path)).samples


def _crop(samples: Samples, seconds: float, rng: np.random.Generator) -> Samples:
    length = min(len(samples), int(seconds * SAMPLE_RATE))
    start = int(rng.integers(0, len(samples) - length + 1))
    crop = samples[start : start + length]
    return apply_level(crop, speech_segments(crop))


def _measures(model: IdentityModel, samples: Samples, enrolled: Embedding, least: float, hop: float) -> Measures:
    """All measures of ``samples`` where the speaker of ``enrolled`` (n, d) is expected."""
    voice = hear(model, prepare(Waveform(samples, Source.FILE)), least_seconds=least, hop_seconds=hop)
    reference = direction(enrolled)
    scores = (
        consistency_score(voice, reference, model.scores),
        consistency_score(voice, None, model.scores),
        takeover_score(voice, reference, model.scores),
    )
    if model.card.calibration is None:
        raise SystemExit(f"card {model.card.name!r} has no calibration; write it with tools.train.identity_card")
    identity = model.card.calibration(model.score(enrolled, voice.whole, voice.seconds))
    enrolled_score, alone, takeover = (np.nan if score is None else score for score in scores)
    return Measures(enrolled_score, alone, takeover, refused=identity < model.card.threshold("balanced"))


def fit_gate(
    dev: Scores, test: Scores, *, kind: str = "genuine", other_kind: str = "strangers"
) -> tuple[Gate, dict[str, Any]]:
    """The gate fitted on ``dev``, and its figures on ``test``; ``kind`` names the undivided commands."""
    undivided = float(np.nanmedian(dev.undivided))
    dev, test = dev.filled(undivided), test.filled(undivided)
    scale, offset = fit_calibration(dev.undivided, dev.spliced)
    description = (
        f"{len(dev.undivided)} {kind} and {len(dev.spliced)} spliced commands "
        f"of {len(set(dev.undivided_speakers))} development speakers"
    )
    gate = Gate(
        undivided=round(undivided, 4),
        calibration=Calibration(scale, offset, description),
        thresholds={
            point: Threshold(
                scale * threshold_at_bpcer(dev.undivided, rate) + offset, f"BPCER {rate:.1%} on {description}"
            )
            for point, rate in GATES.items()
        },
    )

    def below(point: str, raw: NDArray[np.float64]) -> float:
        return float(np.mean(scale * raw + offset < gate.thresholds[point].value))

    caught = {
        point: {
            "bpcer": below(point, test.undivided),
            "apcer": 1 - below(point, test.spliced),
            other_kind: below(point, test.others),
        }
        for point in GATES
    }
    low, high = bootstrap_ci(
        eer,
        (test.undivided, test.spliced),
        (test.undivided_speakers, test.spliced_speakers),
    )
    return gate, {
        "test_eer": eer(test.undivided, test.spliced),
        "ci95": [low, high],
        "n_bonafide": len(test.undivided),
        "n_spoof": len(test.spliced),
        "speakers": len(set(test.undivided_speakers)),
        "apcer_at_bpcer_5": apcer_at_bpcer(test.undivided, test.spliced, 0.05),
        "operating_points": caught,
        "dev_eer": eer(dev.undivided, dev.spliced),
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
    gate, metrics = fit_gate(dev["enrolled"], test["enrolled"])
    alone, alone_metrics = fit_gate(dev["alone"], test["alone"])
    takeover, takeover_metrics = fit_gate(
        dev["takeover"], test["takeover"], kind="refused strangers'", other_kind="owners"
    )
    parameters = ConsistencyParameters(
        gate.undivided, gate.calibration, gate.thresholds,
        least_seconds=args.least, hop_seconds=hop, alone=alone, takeover=takeover,
    )  # fmt: skip
    metrics |= {"alone": alone_metrics, "takeover": takeover_metrics}
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
