"""Latency and processor time of every stage of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from voiceid.benchmark.speech import crop
from voiceid.features.mel import deep_speaker_fbank
from voiceid.pipeline import Pipeline
from voiceid.scoring.identity import Embedding
from voiceid.settings import Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import SAMPLE_RATE, Samples, Utterance, Waveform

CODEBOOK = 100
"""The default codebook."""
STAGES = ("prepare", "identity", "spoofing", "liveness", "consistency", "guard", "fusion", "units")
"""In the pipeline's order."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall-clock (p50, p95) and processor (median) milliseconds; ``rtf`` is p50 over the length of the audio."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float
    rtf: float


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one stage and the number of values that it feeds to its model."""

    cost: Cost
    features: int


@dataclass(frozen=True, slots=True)
class Run:
    """The pipeline on one length of audio with one number of threads; ``total`` is a full decision plus units."""

    seconds: float
    threads: int
    repeats: int
    stages: dict[str, StageCost]
    total: Cost


class CpuStopwatch(Stopwatch):
    """A stopwatch that also keeps each stage's processor time, of all threads, in milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.process_time()
        try:
            with super().stage(name):
                yield
        finally:
            self.cpu[name] = self.cpu.get(name, 0.0) + (time.process_time() - start) * 1e3


def benchmark_settings(settings: Settings, threads: int) -> Settings:
    """``settings`` with ``threads``, and a gate that lets one second of speech through, so that it is judged at all."""
    return replace(
        settings,
        models=replace(settings.models, threads=threads),
        quality=replace(settings.quality, min_net_speech=0.5),
    )


def run_once(pipeline: Pipeline, waveform: Waveform, reference: Embedding) -> tuple[CpuStopwatch, Utterance]:
    """One full decision plus units on ``waveform`` against the enrolled embedding ``reference`` (d,)."""
    watch = CpuStopwatch()
    with watch.stage("prepare"):
        utterance = pipeline.prepare(waveform)
    voice = pipeline.judges.hear(utterance, watch)
    pipeline.judges.examine(utterance, voice, reference, watch)
    with watch.stage("units"):
        pipeline.units(utterance, CODEBOOK)
    return watch, utterance


def measure(
    pipeline: Pipeline,
    speech: Samples,
    seconds: float,
    *,
    threads: int,
    repeats: int,
    between: Callable[[], None] | None = None,
) -> Run:
    """Cost of each stage on ``seconds`` of ``speech``, after one run to warm up.

    ``between`` is called after each run, so that something else is measured under the same load.
    """
    reference = pipeline.judges.identity.embed(speech)
    waveform = crop(speech, seconds)
    _, utterance = run_once(pipeline, waveform, reference)
    watches = []
    for _ in range(repeats):
        watches.append(run_once(pipeline, waveform, reference)[0])
        if between is not None:
            between()
    measured = [stage for stage in STAGES if stage in watches[0].cpu]  # the guard only where it is on
    wall = {stage: [watch.timings()[stage] for watch in watches] for stage in measured}
    cpu = {stage: [watch.cpu[stage] for watch in watches] for stage in measured}
    features = count_features(pipeline, utterance)
    stages = {stage: StageCost(_cost(wall[stage], cpu[stage], seconds), features[stage]) for stage in measured}
    total = _cost(_sum(wall), _sum(cpu), seconds)
    return Run(seconds, threads, repeats, stages, total)


def count_features(pipeline: Pipeline, utterance: Utterance) -> dict[str, int]:
    """How many values each stage feeds to its model for ``utterance``; consistency compares embeddings."""
    judges = pipeline.judges
    windows = len(judges.spoofing.windows(utterance.samples))
    window = round((judges.spoofing.card.window_seconds or 0) * SAMPLE_RATE)
    frames = deep_speaker_fbank(utterance.net_speech())
    voice = judges.hear(utterance, Stopwatch())
    return {
        "prepare": len(utterance.samples),
        "identity": frames.size,
        "spoofing": windows * window,
        "liveness": int(pipeline.judges.liveness.card.inputs["features"][-1]),
        "consistency": voice.before.size + voice.after.size,
        "guard": len(utterance.samples),
        "fusion": 3,
        "units": len(utterance.samples),
    }


def _cost(wall: Sequence[float], cpu: Sequence[float], seconds: float) -> Cost:
    p50, p95 = np.percentile(wall, [50, 95])
    return Cost(float(p50), float(p95), float(np.median(cpu)), float(p50) / (seconds * 1e3))


def _sum(stages: dict[str, list[float]]) -> list[float]:
    return [sum(values) for values in zip(*stages.values(), strict=True)]
