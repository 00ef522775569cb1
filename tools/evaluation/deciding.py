"""Asking the whole pipeline: one file against the templates it is tried on, in every process of a measurement."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tools.evaluation.audio import UnfitError, crop
from tools.evaluation.memory import Memory, Remembered, cache_folder
from tools.evaluation.selection import identifier
from tools.train.data.corpus import Item, read_index
from tools.train.data.replay import Bank, load_bank, simulate_replay
from voiceid.audio import prepare, read_waveform
from voiceid.audio.level import apply_level
from voiceid.audio.vad import speech_segments
from voiceid.enrolment.template import Template
from voiceid.pipeline import Pipeline
from voiceid.settings import Settings
from voiceid.types import SAMPLE_RATE, Outcome, Samples, Source, Waveform

SPLICE, SIMULATED_REPLAY = "splice", "simulated-replay"
GATES = ("identity", "spoofing", "liveness", "consistency")
REFUSED = -1.0
"""Fused score of a trial that a gate refused: below every probability, since no score buys a gate back."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one trial, without the audio.

    ``score`` is the fused probability ``voiceid``, or :data:`REFUSED` where a gate refused; ``llr`` are the gates'
    scores; ``failed`` names the failed gates and "voiceid" where the fused score was too low.
    """

    speaker: str
    outcome: Outcome
    score: float
    llr: tuple[float, ...]
    failed: tuple[str, ...]
    voiceid: float = REFUSED

    @property
    def conclusive(self) -> bool:
        return self.outcome is not Outcome.INCONCLUSIVE

    @property
    def accepted(self) -> bool:
        return self.outcome is Outcome.ACCEPTED


def load_pipeline(settings: Settings, *, cache: bool) -> Pipeline:
    """The pipeline with judges that remember.

    Raises:
        voiceid.errors.ModelError: a model is missing, damaged or does not fit.
    """
    pipeline = Pipeline.load(settings)
    memory = Memory(cache_folder() if cache else None)
    judges = {name: Remembered(getattr(pipeline.judges, name), memory) for name in ("identity", "spoofing", "liveness")}
    return replace(pipeline, judges=replace(pipeline.judges, **judges))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Deciding:
    """Makes the function from a file to its verdicts against every template that ``plan`` names for it."""

    settings: Settings
    templates: dict[str, Template]
    plan: dict[Item, tuple[str, ...]]
    seed: int
    cache: bool = True
    seconds: float | None = None
    """Longer audio is cut to a seeded stretch of this length."""

    def __call__(self) -> Callable[[Item], list[Verdict]]:
        pipeline = load_pipeline(self.settings, cache=self.cache)

        def verdicts(item: Item) -> list[Verdict]:
            samples = audio_of(item, self.seed)
            if self.seconds is not None and len(samples) > self.seconds * SAMPLE_RATE and item.kind != SPLICE:
                rng = np.random.default_rng([self.seed, zlib.crc32(identifier(item).encode())])
                samples = crop(samples, self.seconds, rng)
            waveform = Waveform(samples, Source.FILE)
            return [verdict(pipeline, waveform, self.templates[name]) for name in self.plan[item]]

        return verdicts


def verdict(pipeline: Pipeline, waveform: Waveform, template: Template) -> Verdict:
    """Decide on one trial."""
    decision = pipeline.decide(waveform, template)
    if decision.evidence is None or decision.voiceid is None or decision.voiceid_threshold is None:
        return Verdict(template.name, decision.outcome, REFUSED, (), ())
    scores = [getattr(decision.evidence, gate) for gate in GATES]
    failed = [gate for gate, score in zip(GATES, scores, strict=True) if not score.passed]
    fused = REFUSED if failed else decision.voiceid
    if not decision.voiceid >= decision.voiceid_threshold:
        failed.append("voiceid")
    return Verdict(
        template.name, decision.outcome, fused, tuple(score.llr for score in scores), tuple(failed), decision.voiceid
    )


def audio_of(item: Item, seed: int) -> Samples:
    """The samples of a file, or those of a splice or a simulated replay made of files, seeded.

    Raises:
        voiceid.errors.AudioError: missing or unreadable.
        UnfitError: too little speech to splice.
    """
    samples = read_waveform(item.path).samples
    rng = np.random.default_rng([seed, zlib.crc32(f"{item.kind}:{identifier(item)}:{item.pair}".encode())])
    if item.kind == SPLICE:
        other = read_waveform(item.path.parent / item.pair).samples
        return splice(samples, other, rng)
    if item.kind == SIMULATED_REPLAY:
        return simulate_replay(samples, _bank(), rng).samples
    return samples


@cache
def _bank() -> Bank:
    return load_bank(read_index(), "test")


def splice(owner: Samples, other: Samples, rng: np.random.Generator) -> Samples:
    """A partially spoofed command: 0.8 to 2 s of the ``owner``, as a wake word, then 1 to 3 s of the ``other``.

    Raises:
        UnfitError: one of them holds less speech than that.
    """
    parts = (_stretch(owner, (0.8, 2.0), rng), _stretch(other, (1.0, 3.0), rng))
    return np.concatenate(parts)


def _stretch(samples: Samples, seconds: tuple[float, float], rng: np.random.Generator) -> Samples:
    speech = prepare(Waveform(samples, Source.FILE)).samples
    if len(speech) < seconds[0] * SAMPLE_RATE:
        raise UnfitError("too short for a splice")
    length = min(len(speech), int(rng.uniform(*seconds) * SAMPLE_RATE))
    start = int(rng.integers(0, len(speech) - length + 1))
    part = speech[start : start + length]
    return apply_level(part, speech_segments(part))
