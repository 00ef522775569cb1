"""Fit how spoofing judges relative to an owner, and add it to the card: ``python -m tools.train.owner``.

To be run after ``python -m tools.train.spoofing_card``, and before ``python -m tools.train.fusion``, whose clips it
shares. Development speakers are enrolled from three of their utterances, drawn anew in every round; the others and
copies of these are tried. A card that gains nothing by it loses the entry.

The agent would judge liveness likewise, by the same entry, but no card has it: replays of development speakers do not
follow how live their enrolment sounds, and who enrols in one room and speaks in another is refused more often.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.judging import load_judge
from tools.train.cards import write_card
from tools.train.data.corpus import read_index
from tools.train.data.fusion_set import ENROLLED, clips_of_split, speakers_of
from tools.train.metrics import apcer_at_bpcer, eer, threshold_at_bpcer
from voiceid.audio import prepare, read_waveform
from voiceid.models.card import Card, Threshold, read_card
from voiceid.scoring.owner import ENTRY, OwnerParameters

Floats = NDArray[np.float64]

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
ROUNDS = 20
"""Enrolments of each development speaker."""
MAX_ENROLLABLE = 24
"""Recordings of a speaker to draw enrolments from."""
TAILS = (0.05, 0.95)
"""Quantiles of the enrolments' means, beyond which one counts as these."""


@dataclasses.dataclass(frozen=True, slots=True)
class Speaker:
    """Log-likelihood ratios of one development speaker: of ``recordings`` (r,) to enrol from, and of clips.

    ``genuine`` (g,) and ``attacks`` (a,) are of the recordings ``genuine_of`` (g,) and ``attacks_of`` (a,); a recording
    that cannot be enrolled has the number -1.
    """

    recordings: Floats
    genuine: Floats
    genuine_of: NDArray[np.int64]
    attacks: Floats
    attacks_of: NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Trials:
    """Scores of the tries of one enrolment, which scores ``enrolled``."""

    enrolled: float
    genuine: Floats
    attacks: Floats


def enrolments(speakers: Sequence[Speaker], rng: np.random.Generator) -> list[Trials]:
    """:data:`ROUNDS` enrolments of each speaker, and what is tried on them: no clip of a recording that is enrolled."""
    found = []
    for speaker in speakers:
        for _ in range(ROUNDS):
            drawn = rng.permutation(len(speaker.recordings))[:ENROLLED]
            genuine = speaker.genuine[~np.isin(speaker.genuine_of, drawn)]
            attacks = speaker.attacks[~np.isin(speaker.attacks_of, drawn)]
            found.append(Trials(float(speaker.recordings[drawn].mean()), genuine, attacks))
    return found


def scatter(speakers: Sequence[Speaker]) -> float:
    """Variance within a speaker to that between speakers, of whole recordings (random effects, one way)."""
    groups = [speaker.recordings for speaker in speakers if len(speaker.recordings) > 1]
    sizes = np.array([len(group) for group in groups], float)
    means = np.array([group.mean() for group in groups])
    within = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups) / (sizes.sum() - len(groups))
    between = float(means.var(ddof=1) - within * np.mean(1 / sizes))
    return float(min(within / between, 1000.0)) if between > 0 else 1000.0


def relative(trials: Sequence[Trials], parameters: OwnerParameters) -> tuple[Floats, Floats]:
    """Genuine and attack scores relative to their owners."""
    shifts = [parameters.shift(trial.enrolled, ENROLLED) for trial in trials]
    genuine = [trial.genuine - shift for trial, shift in zip(trials, shifts, strict=True)]
    attacks = [trial.attacks - shift for trial, shift in zip(trials, shifts, strict=True)]
    return np.concatenate(genuine), np.concatenate(attacks)


def fit(
    speakers: Sequence[Speaker], thresholds: Mapping[str, Threshold], *, seed: int = 0
) -> tuple[OwnerParameters, dict[str, Any]]:
    """The parameters by which the fewest attacks pass, and figures of every share that was tried.

    Owners are refused as often as by the absolute ``thresholds``, at each operating point: only attacks can tell.
    """
    trials = enrolments(speakers, np.random.default_rng(seed))
    least, most = np.quantile([trial.enrolled for trial in trials], TAILS)
    usual = float(np.clip(np.mean([speaker.recordings.mean() for speaker in speakers]), least, most))
    draft = OwnerParameters(0.0, round(usual, 4), float(least), float(most), round(scatter(speakers), 3), {})
    scores = {share: relative(trials, dataclasses.replace(draft, share=share)) for share in SHARES}
    absolute = scores[0.0][0]
    refused = {point: float(np.mean(absolute < threshold.value)) for point, threshold in thresholds.items()}
    figures = {share: figures_of(*scores[share], refused) for share in SHARES}
    share = min(SHARES, key=lambda share: figures[share]["apcer"])
    owners = f"owners' trials of {len(speakers)} development speakers, enrolled from {ENROLLED} utterances"
    own = {
        point: Threshold(threshold_at_bpcer(scores[share][0], rate), f"refuses {rate:.1%} of {owners}, as the absolute")
        for point, rate in refused.items()
    }
    report = {"speakers": len(speakers), "bpcer": refused, "share": {f"{key:g}": figures[key] for key in SHARES}}
    return dataclasses.replace(draft, share=share, thresholds=own), report


def figures_of(genuine: Floats, attacks: Floats, refused: Mapping[str, float]) -> dict[str, float]:
    """Equal error rate, the attacks that pass where so many genuine trials are refused, and ``apcer``, their mean."""
    passed = {f"apcer_{point}": apcer_at_bpcer(genuine, attacks, rate) for point, rate in refused.items()}
    mean = float(np.mean(list(passed.values())))
    return {name: round(value, 4) for name, value in {"eer": eer(genuine, attacks), "apcer": mean, **passed}.items()}


def score(card: Path, *, seed: int = 0) -> list[Speaker]:
    """Scores of the development speakers by the spoofing model of ``card``."""
    judge = load_judge("spoofing", str(card))
    items = read_index()
    queues = speakers_of(items, "dev", seed)
    calibration = judge.card.calibration

    def llr(samples: NDArray[np.float32]) -> float:
        return float(calibration(judge.score(samples)))

    found = {
        name: np.array([llr(prepare(read_waveform(item.path)).samples) for item in own[:MAX_ENROLLABLE]])
        for name, own in queues.items()
    }
    tried: dict[str, list[tuple[int, bool, float]]] = {name: [] for name in queues}
    number = dict.fromkeys(queues, ENROLLED)
    for name, clips in clips_of_split(items, "dev", queues, seed):
        at = number[name] if number[name] < len(found[name]) else -1
        number[name] += 1
        judged = [clip for clip in clips if clip.attack in ("none", "spoof")]
        tried[name] += [(at, clip.attack == "none", llr(clip.samples)) for clip in judged]
    return [_speaker(found[name], tried[name]) for name in queues]


def _speaker(recordings: Floats, tried: Sequence[tuple[int, bool, float]]) -> Speaker:
    def column(place: int, genuine: bool, kind: type) -> NDArray[Any]:
        return np.array([row[place] for row in tried if row[1] is genuine], kind)

    return Speaker(
        recordings,
        column(2, True, float),
        column(0, True, int),
        column(2, False, float),
        column(0, False, int),
    )


def with_entry(card: Card, parameters: OwnerParameters, figures: dict[str, Any]) -> Card:
    """``card`` with the entry, or without where no share helps."""
    others = {name: value for name, value in card.parameters.items() if name != ENTRY}
    entry = {ENTRY: dataclasses.asdict(parameters)} if parameters.share else {}
    return dataclasses.replace(card, parameters=others | entry, metrics={**card.metrics, ENTRY: figures})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", type=Path, default=Path("models/spoofing-pi.json"), help="default: %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="print, but leave the card as it is")
    arguments = parser.parse_args()
    card = read_card(arguments.card)
    parameters, figures = fit(score(arguments.card), card.thresholds)
    print(json.dumps({**dataclasses.asdict(parameters), **figures}, indent=1))
    if not arguments.dry_run:
        write_card(with_entry(card, parameters, figures), arguments.card.parent)


if __name__ == "__main__":
    main()
