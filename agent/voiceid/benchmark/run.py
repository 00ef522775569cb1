"""The whole benchmark as one report, and the comparison of two."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from voiceid import __version__
from voiceid.benchmark.footprint import ColdStart, ModelFootprint, measure_cold_start, measure_models
from voiceid.benchmark.machine import Machine, describe_machine, usable_cores
from voiceid.benchmark.speech import collect_speech
from voiceid.benchmark.stages import Run, benchmark_settings, measure
from voiceid.errors import ModelError, SettingsError
from voiceid.file_kind import FileKind, this_is
from voiceid.pipeline import Pipeline
from voiceid.regular_file import read_regular
from voiceid.settings import Settings
from voiceid.types import Samples

SCHEMA = 1
MAX_REPORT = 1 << 20
"""Bytes of a report that is read back; one is a hundredth of it."""
SECONDS = (1.0, 2.0, 3.0, 5.0, 10.0)
QUICK_SECONDS = (1.0, 3.0)
REPEATS, QUICK_REPEATS = 20, 5
COMMAND_SECONDS = 3.0
"""The length of a spoken command, for the headline figures."""
BUDGET_MS = 700.0
"""Total time that the VoiceID paper (arXiv 2205.14026) keeps within, on a Raspberry Pi 4B."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another model on its own, timed in turn with the agent: one thread, full graph optimisation."""

    file: str
    input_shape: tuple[int, ...]
    cpu_ms: float
    agent_cpu_ms: float
    """Full decision plus units on 3 s, one thread."""
    ratio: float
    """Agent over reference."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything measured; milliseconds and MiB."""

    schema: int
    version: str
    machine: Machine
    speech_files: int
    runs: tuple[Run, ...]
    models: tuple[ModelFootprint, ...]
    cold_start: ColdStart
    reference: Reference | None
    budget: str
    """The headline in one sentence."""

    def run(self, seconds: float, threads: int) -> Run:
        """The run on ``seconds`` with ``threads``."""
        return next(run for run in self.runs if run.seconds == seconds and run.threads == threads)


class ReferenceModel:
    """An ONNX graph with one float32 input, run on noise-free copies of the benchmark's speech."""

    def __init__(self, path: Path, speech: Samples) -> None:
        """Load ``path``.

        Raises:
            ModelError: it cannot be loaded, or has more than one input or an input without a fixed length.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own that share no public base
            raise ModelError(f"{path}: not a loadable ONNX model ({error})") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or not all(isinstance(size, int) for size in inputs[0].shape[1:]):
            raise ModelError(f"{path}: the reference needs one input of fixed length, as AASIST's 64600 samples")
        self.path = path
        self.shape = (1, *inputs[0].shape[1:])
        self._feed = {inputs[0].name: np.resize(speech, self.shape).astype(np.float32)}
        self.cpu_ms: list[float] = []
        self._session.run(None, self._feed)

    def time_once(self) -> None:
        """Run once and keep the processor time."""
        start = time.process_time()
        self._session.run(None, self._feed)
        self.cpu_ms.append((time.process_time() - start) * 1e3)


def run_benchmark(
    settings: Settings,
    files: Sequence[Path],
    *,
    quick: bool = False,
    reference_onnx: Path | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure everything; ``on_step`` hears what is measured next, :func:`count_steps` times.

    Raises:
        AudioError: no speech to measure on.
        ModelError: a model cannot be loaded.
    """
    machine = describe_machine()
    lengths, repeats = (QUICK_SECONDS, QUICK_REPEATS) if quick else (SECONDS, REPEATS)
    speech = collect_speech(files, max(lengths))
    reference = ReferenceModel(reference_onnx, speech) if reference_onnx else None
    Pipeline.load(settings)  # a model that cannot be used is told here, not by a measuring process
    on_step("cold start and peak memory")
    cold_start = measure_cold_start(settings.models, speech, COMMAND_SECONDS)
    on_step("memory of each model")
    models = measure_models(settings.models, speech, COMMAND_SECONDS)
    runs = []
    for threads in thread_counts():
        pipeline = Pipeline.load(benchmark_settings(settings, threads))
        for seconds in lengths:
            on_step(f"{seconds:g} s of speech, {threads} thread{'s' if threads > 1 else ''}")
            timed = reference if reference and threads == 1 and seconds == COMMAND_SECONDS else None
            between = timed.time_once if timed else None
            runs.append(measure(pipeline, speech, seconds, threads=threads, repeats=repeats, between=between))
    headline = next(run for run in runs if run.seconds == COMMAND_SECONDS and run.threads == 1)
    return Report(
        SCHEMA,
        __version__,
        machine,
        len(files),
        tuple(runs),
        models,
        cold_start,
        _reference_result(reference, headline) if reference else None,
        _budget(headline, machine),
    )


def thread_counts() -> tuple[int, ...]:
    """One thread, and all cores where there are more."""
    return (1, usable_cores()) if usable_cores() > 1 else (1,)


def count_steps(*, quick: bool) -> int:
    """How often :func:`run_benchmark` calls ``on_step``."""
    return 2 + len(thread_counts()) * len(QUICK_SECONDS if quick else SECONDS)


def read_report(path: Path) -> dict[str, Any]:
    """A previous report, as ``voiceid benchmark --json`` wrote it.

    Raises:
        SettingsError: ``path`` is no such report.
    """
    data = b""
    try:
        data = read_regular(path, MAX_REPORT)
        report: dict[str, Any] = json.loads(data)
        if report["schema"] != SCHEMA:
            raise SettingsError(f"{path}: report of schema {report['schema']}; this version compares schema {SCHEMA}")
        _figures(report)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        other = this_is(data, FileKind.REPORT)
        raise SettingsError(f"{path}: not a report of 'voiceid benchmark --json'{other or f' ({what})'}") from error
    return report


def compare(report: Report, previous: dict[str, Any]) -> dict[str, float]:
    """Ratio now / before of what both reports measured, by keys such as ``3s/1t/p50_ms``; below 1 is better."""
    now, before = _figures(asdict(report)), _figures(previous)
    return {key: now[key] / before[key] for key in now if before.get(key)}


def _figures(report: dict[str, Any]) -> dict[str, float]:
    figures = {
        f"{run['seconds']:g}s/{run['threads']}t/{key}": float(run["total"][key])
        for run in report["runs"]
        for key in ("p50_ms", "p95_ms", "cpu_ms")
    }
    return figures | {f"cold_start/{key}": float(report["cold_start"][key]) for key in ("process_ms", "peak_rss_mib")}


def _reference_result(reference: ReferenceModel, headline: Run) -> Reference:
    cpu = float(np.median(reference.cpu_ms))
    agent = headline.total.cpu_ms
    return Reference(reference.path.name, reference.shape, cpu, agent, agent / cpu)


def _budget(run: Run, machine: Machine) -> str:
    verdict = "within" if run.total.p50_ms <= BUDGET_MS else "over"
    where = f"measured on {machine.cpu} ({machine.cores} cores, {machine.platform})"
    if not machine.is_pi_4:
        where += ", which is not the Raspberry Pi 4B of that budget: expect other figures there"
    if machine.load is not None and machine.load > machine.cores:
        where += f"; other programs kept it busy (load {machine.load}), so the processor time says more"
    return (
        f"full decision and units on {run.seconds:g} s of speech, one thread: {run.total.p50_ms:.0f} ms (p50; "
        f"processor time {run.total.cpu_ms:.0f} ms), {verdict} the paper's {BUDGET_MS:.0f} ms; {where}"
    )
