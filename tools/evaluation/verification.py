"""Speaker verification: every speaker enrolled from three utterances, every other utterance tried against everyone."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.evaluation.audio import Condition
from tools.evaluation.judging import Asking, load_judge
from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, each
from tools.evaluation.report import card_summary, detection, detection_table, partition, percent
from tools.evaluation.selection import choose, limited, noise_files, system
from tools.evaluation.trials import Embedding, Enrolled, enrol, same_recording
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.models.card import Card

NAMES = ("target", "nontarget")


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials as columns: raw ``scores`` (n,), ``target`` (n,), the enrolled ``speakers`` and the ``tests``."""

    scores: NDArray[np.float64]
    target: NDArray[np.bool_]
    speakers: NDArray[np.str_]
    tests: list[Item]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, help="try a seeded crop of this length; shorter clips are left out and counted"
    )
    parser.add_argument(
        "--snr", type=float, metavar="DB", help="add noise (the index's noise rows, else pink) to what is tried"
    )


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    if set(options.kinds) - {"bonafide"}:
        raise EvaluationError("verification tries bona fide speech only; for attacks use 'spoofing' or 'decision'")
    items = choose(options, ("bonafide",))
    noise = noise_files(options.index, options.split) if arguments.snr is not None else ()
    condition = Condition(arguments.seconds, arguments.snr, noise, options.seed)
    account, dropped = Account(), Counter[str]()

    def embed_all(batch: list[Item]) -> dict[Item, Embedding]:
        return dict(each(Asking.of("identity", options), batch, jobs=options.jobs, account=account, label="enrol"))

    enrolled = enrol(items, embed_all, seed=options.seed, dropped=dropped)
    tests = limited([item for speaker in enrolled for item in speaker.rest], options)
    embedded = each(Asking.of("identity", options, condition), tests, jobs=options.jobs, account=account, label="try")
    account.dropped.update(dropped)
    judge = load_judge("identity", options.card)
    trials = try_all(enrolled, embedded, judge.score, account)
    result = {
        "command": "verification",
        "card": card_summary(judge.card),
        "condition": {"seconds": arguments.seconds, "snr_db": arguments.snr, "noise_files": len(noise)},
        "n_speakers": len(enrolled),
        "enrolment_utterances": len(enrolled[0].items),
        **summarise(trials, judge.card),
    }
    return result, describe(result), account


def try_all(
    enrolled: list[Enrolled],
    embedded: list[tuple[Item, Embedding]],
    score: Callable[[Embedding, Embedding], float],
    account: Account,
) -> Trials:
    """Score every test against every template, but for pairs that may be the same recording."""
    scores: list[float] = []
    target: list[bool] = []
    speakers: list[str] = []
    tests: list[Item] = []
    for speaker in tqdm(enrolled, desc="score", unit="template", disable=None):
        for item, embedding in embedded:
            if any(same_recording(own, item) for own in speaker.items):
                account.dropped["pair of the same sentence or recording"] += 1
                continue
            scores.append(float(score(speaker.reference, embedding)))
            target.append(item.speaker == speaker.speaker)
            speakers.append(speaker.speaker)
            tests.append(item)
    return Trials(np.array(scores), np.array(target, bool), np.array(speakers), tests)


def summarise(trials: Trials, card: Card) -> dict[str, Any]:
    """EER, costs, error rates at the card's thresholds, and the same by kind, set and note."""

    def part(chosen: NDArray[Any]) -> dict[str, Any]:
        target, scores, speakers = trials.target[chosen], trials.scores[chosen], trials.speakers[chosen]
        groups = (list(speakers[target]), list(speakers[~target]))
        return detection(scores[target], scores[~target], groups, NAMES)

    everything = np.arange(len(trials.scores))
    result = part(everything)
    positives, negatives = trials.scores[trials.target], trials.scores[~trials.target]
    if positives.size and negatives.size:
        result["min_dcf_p01"] = metrics.min_dcf(positives, negatives)
        if card.calibration is not None:
            llr = (
                card.calibration.scale * positives + card.calibration.offset,
                card.calibration.scale * negatives + card.calibration.offset,
            )
            result["cllr"] = metrics.cllr(*llr)
            result["thresholds"] = {
                point: {"frr": float(np.mean(llr[0] < t.value)), "far": float(np.mean(llr[1] >= t.value))}
                for point, t in card.thresholds.items()
            }
        result["far_supported"] = 3 / negatives.size
    keys = {
        "kind": [item.kind for item in trials.tests],
        "set": [item.set for item in trials.tests],
        "note": [system(item) if item.note else "" for item in trials.tests],
    }
    result["by"] = {
        kind: {name: part(chosen) for name, chosen in partition(column).items()} for kind, column in keys.items()
    }
    return result


def describe(result: dict[str, Any]) -> str:
    lines = [
        detection_table(result, NAMES),
        "",
        f"{result['n_speakers']} speakers enrolled from {result['enrolment_utterances']} utterances each",
    ]
    for point, rates in result.get("thresholds", {}).items():
        lines.append(f"at the card's {point} threshold: FRR {percent(rates['frr'])}, FAR {percent(rates['far'])}")
    if "far_supported" in result:
        lines.append(
            f"these trials can support a FAR of {percent(result['far_supported'])} at 95 % confidence (rule of three)"
        )
    return "\n".join(lines)
