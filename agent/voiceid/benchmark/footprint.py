"""Memory and cold start, measured in fresh processes that run the agent and nothing else.

``python -m voiceid.benchmark.footprint`` is such a process: it reads its task and the audio from standard input (audio
touches no disk) and writes one JSON object to standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from voiceid.benchmark.machine import reset_peak, resident_mib
from voiceid.errors import VoiceIdError
from voiceid.models.card import Role
from voiceid.models.store import find_model, references
from voiceid.settings import ModelSettings, Settings
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

Task = Literal["cold-start", "models"]


@dataclass(frozen=True, slots=True)
class ColdStart:
    """From nothing to the first decision and its units, in milliseconds."""

    process_ms: float
    """All of it, as a caller waits."""
    start_ms: float
    """Interpreter and imports."""
    load_ms: float
    """Reading, verifying and loading the models."""
    first_decision_ms: float
    peak_rss_mib: float
    """Peak resident memory of the process, all models loaded."""


@dataclass(frozen=True, slots=True)
class ModelFootprint:
    """A model in use: its size on disk (with assets) and resident memory that it added.

    ``added_rss_mib`` stays after loading and running it, ``running_rss_mib`` is needed while it runs.
    """

    role: Role
    name: str
    version: str
    sha256: str
    disk_bytes: int
    added_rss_mib: float
    running_rss_mib: float


def measure_cold_start(settings: ModelSettings, speech: Samples, seconds: float) -> ColdStart:
    """Start, load everything, decide on ``seconds`` of ``speech`` and tokenise it."""
    start = time.perf_counter()
    result = _spawn("cold-start", settings, speech, seconds)
    process = (time.perf_counter() - start) * 1e3
    return ColdStart(process, process - result["load_ms"] - result["first_decision_ms"], **result)


def measure_models(settings: ModelSettings, speech: Samples, seconds: float) -> tuple[ModelFootprint, ...]:
    """Load and run the models one after the other, the hungriest last, lest others live in memory that it left."""
    memory = _spawn("models", settings, speech, seconds)
    return tuple(_footprint(role, name, memory[role]) for role, name in references(settings).items())


def _footprint(role: Role, reference: str, memory: dict[str, float]) -> ModelFootprint:
    model = find_model(reference, role)
    card = model.card
    size = sum((model.folder / name).stat().st_size for name in (card.file, *card.assets))
    return ModelFootprint(role, card.name, card.version, card.sha256, size, **memory)


def _spawn(task: Task, settings: ModelSettings, speech: Samples, seconds: float) -> dict[str, Any]:
    header = json.dumps({"task": task, "models": asdict(settings), "seconds": seconds}).encode() + b"\n"
    finished = subprocess.run(
        [sys.executable, "-m", "voiceid.benchmark.footprint"], input=header + speech.tobytes(), capture_output=True
    )
    if finished.returncode:
        raise VoiceIdError(f"the measuring process failed: {finished.stderr.decode(errors='replace').strip()[-300:]}")
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def _cold_start(settings: Settings, speech: Samples, seconds: float) -> dict[str, float]:
    from voiceid.benchmark.speech import crop
    from voiceid.benchmark.stages import run_once
    from voiceid.pipeline import Pipeline

    begin = time.perf_counter()
    pipeline = Pipeline.load(settings)
    loaded = time.perf_counter()
    waveform = crop(speech, seconds)
    run_once(pipeline, waveform, pipeline.judges.identity.embed(waveform.samples))
    done = time.perf_counter()
    return {
        "load_ms": (loaded - begin) * 1e3,
        "first_decision_ms": (done - loaded) * 1e3,
        "peak_rss_mib": resident_mib()[1],
    }


def _models(settings: Settings, speech: Samples, seconds: float) -> dict[str, dict[str, float]]:
    from voiceid.audio import prepare
    from voiceid.benchmark.stages import CODEBOOK
    from voiceid.scoring.fusion import FusionModel
    from voiceid.scoring.guard import GuardModel
    from voiceid.scoring.identity import IdentityModel
    from voiceid.scoring.liveness import LivenessModel
    from voiceid.scoring.spoofing import SpoofingModel
    from voiceid.units.tokenizer import Tokenizer

    samples = speech[: round(seconds * SAMPLE_RATE)]
    utterance = prepare(Waveform(samples, Source.FILE))
    guard = partial(GuardModel, identity=find_model(settings.models.identity, "identity").card)
    steps: tuple[tuple[Role, Any, Callable[[Any], Any]], ...] = (
        ("units", Tokenizer, lambda model: model.encode(samples, codebook=CODEBOOK)),
        ("identity", IdentityModel, lambda model: model.embed(samples)),
        ("liveness", LivenessModel, lambda model: model.score(samples)),
        ("fusion", FusionModel, lambda model: model.probability(0.0, 0.0, 0.0)),
        ("guard", guard, lambda model: model.copy(utterance)),
        ("spoofing", SpoofingModel, lambda model: model.windows(samples)),
    )
    kept = []
    memory: dict[str, dict[str, float]] = {}
    named = references(settings.models)
    for role, kind, run in (step for step in steps if step[0] in named):
        before, _ = resident_mib()
        reset_peak()
        kept.append(kind(find_model(named[role], role), threads=settings.models.threads))
        run(kept[-1])
        after, peak = resident_mib()
        memory[role] = {"added_rss_mib": max(0.0, after - before), "running_rss_mib": max(0.0, peak - before)}
    return memory


def main() -> None:
    """Read the task, measure, write the result."""
    header = json.loads(sys.stdin.buffer.readline())
    speech = np.frombuffer(sys.stdin.buffer.read(), np.float32)
    from voiceid.benchmark.stages import benchmark_settings

    settings = benchmark_settings(Settings(models=ModelSettings(**header["models"])), header["models"]["threads"])
    tasks: dict[Task, Callable[[Settings, Samples, float], Any]] = {"cold-start": _cold_start, "models": _models}
    json.dump(tasks[header["task"]](settings, speech, header["seconds"]), sys.stdout)


if __name__ == "__main__":
    main()
