"""Who is enrolled from which utterances, and which utterances are tried against whom."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.options import EvaluationError
from tools.evaluation.selection import sentence, session
from tools.train.data.corpus import Item

ENROLMENT_UTTERANCES = 3
Embedding = NDArray[np.float32]


@dataclass(slots=True)
class Enrolled:
    """One speaker's enrolment: the utterances, their embeddings (n, d) of unit norm, and what is left to try."""

    speaker: str
    items: list[Item]
    embeddings: Embedding
    rest: list[Item] = field(default_factory=list)


def enrolment_order(items: Sequence[Item], seed: int) -> list[Item]:
    """A speaker's utterances in the order to enrol them: seeded, one of each session before a second of any."""
    ordered = sorted(items, key=lambda item: str(item.path.name))
    random.Random(f"{seed}:{ordered[0].speaker}").shuffle(ordered)
    turn: Counter[tuple[str, str]] = Counter()
    ranks: list[int] = []
    for item in ordered:
        key = (item.set, session(item))
        ranks.append(turn[key])
        turn[key] += 1
    return [item for _, item in sorted(zip(ranks, ordered, strict=True), key=lambda pair: pair[0])]


def enrol(
    items: Sequence[Item],
    embed_all: Callable[[list[Item]], dict[Item, Embedding]],
    *,
    seed: int,
    dropped: Counter[str],
    utterances: int = ENROLMENT_UTTERANCES,
    least_tests: int = 1,
) -> list[Enrolled]:
    """Enrol every speaker who has utterances enough; the others are counted in ``dropped``.

    ``embed_all`` embeds whole, clean utterances and leaves out those that cannot be used.

    Raises:
        EvaluationError: nobody can be enrolled.
    """
    speakers: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.speaker:
            speakers[item.speaker].append(item)
        else:
            dropped["no speaker label"] += 1
    queues: dict[str, list[Item]] = {}
    for name, own in sorted(speakers.items()):
        if len(own) < utterances + least_tests:
            dropped[f"speaker with fewer than {utterances + least_tests} utterances"] += len(own)
        else:
            queues[name] = enrolment_order(own, seed)
    chosen: dict[str, dict[Item, Embedding]] = {name: {} for name in queues}
    while wanted := {
        n: queues[n][: utterances - len(c)] for n, c in chosen.items() if len(c) < utterances and queues[n]
    }:
        embedded = embed_all([item for some in wanted.values() for item in some])
        for name, some in wanted.items():
            queues[name] = queues[name][len(some) :]
            chosen[name] |= {item: embedded[item] for item in some if item in embedded}
    enrolled = []
    for name, embeddings in chosen.items():
        if len(embeddings) == utterances and len(queues[name]) >= least_tests:
            enrolled.append(Enrolled(name, list(embeddings), np.stack(list(embeddings.values())), queues[name]))
        else:
            dropped["speaker with too few usable utterances"] += len(queues[name])
    if not enrolled:
        raise EvaluationError(
            f"none of {len(speakers)} speakers has the {utterances + least_tests} usable utterances that a trial needs "
            f"({utterances} to enrol, {least_tests} to try)"
        )
    return enrolled


def same_recording(enrolled: Item, test: Item) -> bool:
    """Whether the two may hold the same recorded sentence: then their trial would prove nothing.

    VCTK's sentences occur in several sets; one with unknown words is taken for the same. LibriSpeech and LibriTTS cut
    the same chapters differently, so that chapters must differ between sets, and be known.
    """
    if enrolled.path.name == test.path.name and enrolled.speaker == test.speaker:
        return True
    if enrolled.speaker != test.speaker:
        return False
    if test.speaker.startswith("vctk"):
        first, second = sentence(enrolled), sentence(test)
        return first == second if first and second else enrolled.set != test.set
    if test.speaker.startswith("ls") and enrolled.set != test.set:
        return session(enrolled) == session(test) or not (session(enrolled) and session(test))
    return False
