"""Speaker verification: every speaker enrolled from three utterances, every other utterance tried against everyone."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.evaluation import det, groups
from tools.evaluation.audio import Condition, load_utterance
from tools.evaluation.judging import Asking, load_judge
from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, each, finite
from tools.evaluation.report import card_summary, detection, detection_table, partition, percent
from tools.evaluation.selection import choose, limited, noise_files, system
from tools.evaluation.trials import Embedding, Enrolled, enrol, same_recording
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.models.card import Card
from voiceid.types import SAMPLE_RATE

NAMES = ("target", "nontarget")
CONDITION = re.compile(r"(?P<seconds>full|\d+(\.\d+)?s)(@(?P<snr>-?\d+(\.\d+)?)dB)?")


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials as columns: raw ``scores`` (n,), ``target`` (n,), the enrolled ``speakers`` and the ``tests``.

    ``enrolled`` has an utterance of each enrolled speaker.
    """

    scores: NDArray[np.float64]
    target: NDArray[np.bool_]
    speakers: NDArray[np.str_]
    tests: list[Item]
    enrolled: dict[str, Item]


@dataclass(frozen=True, slots=True)
class Hearing:
    """Makes the function from an index row to the embedding of its speech and how many seconds that is."""

    card: str | None
    cache: bool
    condition: Condition

    def __call__(self) -> Callable[[Item], tuple[Embedding, float]]:
        judge = load_judge("identity", self.card, cache=self.cache)

        def hear(item: Item) -> tuple[Embedding, float]:
            speech = load_utterance(item, self.condition).net_speech()
            return finite(judge.embed(speech)), len(speech) / SAMPLE_RATE

        return hear


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, help="try a seeded crop of this length; shorter clips are left out and counted"
    )
    parser.add_argument(
        "--snr", type=float, metavar="DB", help="add noise (the index's noise rows, else pink) to what is tried"
    )
    parser.add_argument(
        "--conditions",
        type=_conditions,
        default=(),
        metavar="A,B",
        help="report these too, from the same enrolments: lengths such as 2s or full, with noise such as 3s@10dB",
    )
    det.add_option(parser)


def _conditions(text: str) -> tuple[tuple[str, float | None, float | None], ...]:
    """Names, seconds and decibels of conditions."""
    conditions = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        found = CONDITION.fullmatch(name)
        if found is None:
            raise argparse.ArgumentTypeError(f"{name!r} is no condition; conditions are such as 2s, full or 3s@10dB")
        seconds, snr = found["seconds"], found["snr"]
        conditions.append(
            (name, None if seconds == "full" else float(seconds[:-1]), None if snr is None else float(snr))
        )
    return tuple(conditions)


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    account, dropped = Account(), Counter[str]()

    def embed_all(batch: list[Item]) -> dict[Item, Embedding]:
        return dict(each(Asking.of("identity", options), batch, jobs=options.jobs, account=account, label="enrol"))

    enrolled, tests = prepare(options, embed_all, dropped)
    noisy = arguments.snr is not None or any(snr is not None for _, _, snr in arguments.conditions)
    noise = noise_files(options.index, options.split) if noisy else ()
    judge = load_judge("identity", options.card)

    def tried(seconds: float | None, snr: float | None, account: Account) -> Trials:
        condition = Condition(seconds, snr, noise, options.seed)
        hearing = Hearing(options.card, options.cache, condition)
        heard = each(hearing, tests, jobs=options.jobs, account=account, label="try")
        return try_all(enrolled, heard, judge.score, account)

    trials = tried(arguments.seconds, arguments.snr, account)
    account.dropped.update(dropped)
    result = {
        "command": "verification",
        "card": card_summary(judge.card),
        "condition": {
            "seconds": arguments.seconds,
            "snr_db": arguments.snr,
            "noise_files": len(noise) if arguments.snr is not None else 0,
        },
        "n_speakers": len(enrolled),
        "enrolment_utterances": len(enrolled[0].items),
        **summarise(trials, judge.card, arguments.seconds),
    }
    if arguments.conditions:
        result["conditions"] = {}
        for name, seconds, snr in arguments.conditions:
            own = Account()
            try:
                part = rates(tried(seconds, snr, own), judge.card)
            except EvaluationError as error:
                part = {"eer": None, "ci95": None, "reason": str(error), "n_target": 0, "n_nontarget": 0}
            result["conditions"][name] = part | {"dropped": dict(own.dropped), "failed": len(own.failed)}
    return result, describe(result), account


def prepare(
    options: Options, embed_all: Callable[[list[Item]], dict[Item, Embedding]], dropped: Counter[str]
) -> tuple[list[Enrolled], list[Item]]:
    """Enrol everyone with the embeddings of ``embed_all``; returns them and what is to be tried.

    Raises:
        EvaluationError: attacks were asked for, or nobody can be enrolled.
    """
    if set(options.kinds) - {"bonafide"}:
        raise EvaluationError("verification tries bona fide speech only; for attacks use 'spoofing' or 'decision'")
    enrolled = enrol(choose(options, ("bonafide",)), embed_all, seed=options.seed, dropped=dropped)
    return enrolled, limited([item for speaker in enrolled for item in speaker.rest], options)


def try_all(
    enrolled: list[Enrolled],
    heard: list[tuple[Item, tuple[Embedding, float]]],
    score: Callable[[Embedding, Embedding, float], float],
    account: Account,
) -> Trials:
    """Score every test, an embedding and its seconds of speech, against every template, but for pairs that may be the
    same recording.
    """
    scores: list[float] = []
    target: list[bool] = []
    speakers: list[str] = []
    tests: list[Item] = []
    for speaker in tqdm(enrolled, desc="score", unit="template", disable=None):
        for item, (embedding, seconds) in heard:
            if any(same_recording(own, item) for own in speaker.items):
                account.dropped["pair of the same sentence or recording"] += 1
                continue
            scores.append(float(score(speaker.embeddings, embedding, seconds)))
            target.append(item.speaker == speaker.speaker)
            speakers.append(speaker.speaker)
            tests.append(item)
    examples = {speaker.speaker: speaker.items[0] for speaker in enrolled}
    return Trials(np.array(scores), np.array(target, bool), np.array(speakers), tests, examples)


def rates(trials: Trials, card: Card, chosen: NDArray[Any] | None = None) -> dict[str, Any]:
    """EER and error rates at the card's thresholds, of the ``chosen`` trials or all."""
    rows = np.arange(len(trials.scores)) if chosen is None else chosen
    target, scores, speakers = trials.target[rows], trials.scores[rows], trials.speakers[rows]
    positives, negatives = scores[target], scores[~target]
    result = detection(positives, negatives, (list(speakers[target]), list(speakers[~target])), NAMES)
    if positives.size and negatives.size and card.calibration is not None:
        scale, offset = card.calibration.scale, card.calibration.offset
        result["thresholds"] = {
            point: {
                "frr": float(np.mean(scale * positives + offset < t.value)),
                "far": float(np.mean(scale * negatives + offset >= t.value)),
            }
            for point, t in card.thresholds.items()
        }
    return result


def summarise(trials: Trials, card: Card, seconds: float | None = None) -> dict[str, Any]:
    """The rates over all and by group, and costs; ``seconds`` is what clips were cut to.

    Trials by sex and by language are those of two of the same; all other groups are of what is tried.
    """
    result = rates(trials, card)
    positives, negatives = trials.scores[trials.target], trials.scores[~trials.target]
    if positives.size and negatives.size:
        result["min_dcf_p01"] = metrics.min_dcf(positives, negatives)
        if card.calibration is not None:
            scale, offset = card.calibration.scale, card.calibration.offset
            result["cllr"] = metrics.cllr(scale * positives + offset, scale * negatives + offset)
        result["far_supported"] = 3 / negatives.size
    pairs = [(test, trials.enrolled[name]) for test, name in zip(trials.tests, trials.speakers, strict=True)]

    def alike(tell: Callable[[Item], str]) -> list[str]:
        return [tell(test) if tell(test) == tell(enrolled) else "" for test, enrolled in pairs]

    most = float("inf") if seconds is None else seconds
    keys = {
        "kind": [item.kind for item in trials.tests],
        "set": [item.set for item in trials.tests],
        "note": [system(item) if item.note else "" for item in trials.tests],
        "sex": alike(groups.sex),
        "language": alike(groups.language),
        "duration": [groups.duration(min(item.seconds, most)) for item in trials.tests],
        "codec": [item.codec for item in trials.tests],
    }
    result["by"] = {
        kind: {name: rates(trials, card, chosen) for name, chosen in partition(column).items()}
        for kind, column in keys.items()
    }
    result["not_told"] = [kind for kind in ("sex", "language", "duration", "codec") if not result["by"][kind]]
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
    if result["not_told"]:
        lines.append(f"neither the index nor its notes tell: {', '.join(result['not_told'])}")
    return "\n".join(lines)
