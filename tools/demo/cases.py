"""What the demo tries, chosen by a fixed rule: first commands in order of name, never by how they score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tools.demo.attacks import copy_synthesis, replay, splice
from tools.demo.voices import Clip, Voice
from voiceid.types import SAMPLE_RATE, Outcome, Samples

ENROLMENT_CLIPS = 5
"""The owner's first commands; enrolment takes as many as it needs."""
SILENCE_SECONDS = 3.0
SHORT_SECONDS = 0.3
SEED = 2026


@dataclass(frozen=True, slots=True)
class Case:
    """A situation, the recordings that stand for it, and the outcome that each of them must have."""

    title: str
    slug: str
    expected: Outcome
    recordings: tuple[Clip, ...]


def commands_needed(recordings: int) -> int:
    """How many commands of each person the demo uses, with ``recordings`` for each case."""
    return ENROLMENT_CLIPS + recordings


def enrolment_clips(owner: Voice) -> tuple[Clip, ...]:
    """What the owner enrols with."""
    return owner.clips[:ENROLMENT_CLIPS]


def make_cases(owner: Voice, others: tuple[Voice, ...], recordings: int) -> tuple[Case, ...]:
    """The demo's cases, with ``recordings`` each; ``others`` are strangers, taken in turn."""
    commands = owner.clips[ENROLMENT_CLIPS : ENROLMENT_CLIPS + recordings]
    rng = np.random.default_rng(SEED)

    def attacked(attack: Callable[[Samples, np.random.Generator], Samples]) -> tuple[Clip, ...]:
        return tuple(Clip(f"{owner.name}: {clip.name}", attack(clip.samples, rng)) for clip in commands)

    strangers = tuple(
        Clip(f"{voice.name}: {voice.clips[ENROLMENT_CLIPS + turn].name}", voice.clips[ENROLMENT_CLIPS + turn].samples)
        for turn in range(recordings)
        for voice in (others[turn % len(others)],)
    )
    spliced = tuple(
        Clip(f"{owner.name} + {stranger.name}", splice(clip.samples, stranger.samples))
        for clip, stranger in zip(commands, strangers, strict=True)
    )
    genuine = tuple(Clip(f"{owner.name}: {clip.name}", clip.samples) for clip in commands)
    silence = Clip("digital silence", np.zeros(int(SILENCE_SECONDS * SAMPLE_RATE), np.float32))
    fragment = Clip(f"{owner.name}: {commands[0].name}", commands[0].samples[: int(SHORT_SECONDS * SAMPLE_RATE)])
    return (
        Case("same speaker", "same-speaker", Outcome.ACCEPTED, genuine),
        Case("another speaker", "another-speaker", Outcome.REJECTED, strangers),
        Case("vocoder copy", "vocoder-copy", Outcome.SPOOF, attacked(copy_synthesis)),
        Case("loudspeaker replay", "loudspeaker-replay", Outcome.REPLAY, attacked(replay)),
        Case("splice of two people", "splice", Outcome.INCONSISTENT, spliced),
        Case("silence", "silence", Outcome.INCONCLUSIVE, (silence,)),
        Case("0.3 s of speech", "too-short", Outcome.INCONCLUSIVE, (fragment,)),
    )
