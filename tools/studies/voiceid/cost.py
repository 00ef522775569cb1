"""Table IV: latency, features and memory of the agent, by its own benchmark on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tools.studies.results import digest, kept
from tools.studies.versions import cards
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.people import choose
from tools.studies.voiceid.tables import Table
from voiceid.benchmark.machine import describe_machine
from voiceid.benchmark.run import COMMAND_SECONDS, run_benchmark


def step(study: Study) -> dict[str, Any]:
    """The benchmark on recordings of the first participant."""
    person = choose(study).people[0]
    machine = describe_machine()
    key = digest(study.cost, study.models, cards(study.models), person.name, machine.cpu, machine.cores)

    def make() -> dict[str, Any]:
        files = [item.path for item in person.recordings]
        report = run_benchmark(study.settings, files, quick=study.cost.quick)
        result: dict[str, Any] = json.loads(json.dumps(asdict(report)))
        return result

    return kept(study.output / "cost.json", key, make)


def tables(result: dict[str, Any]) -> list[Table]:
    """Stages and memory for a command, then the whole decision by length of speech."""
    headline = next(run for run in result["runs"] if run["seconds"] == COMMAND_SECONDS and run["threads"] == 1)
    memory = {model["role"]: model for model in result["models"]}
    rows = [[stage, *_stage(headline["stages"][stage], memory.get(stage))] for stage in headline["stages"]]
    peak = result["cold_start"]["peak_rss_mib"]
    rows.append(["whole", "", *_times(headline["total"]), _disk(result["models"]), f"{peak:.1f} (peak, process)"])
    load = result["machine"]["load"]
    caption = (
        f"{COMMAND_SECONDS:g} s of speech, one thread, {headline['repeats']} repeats; load average at the start: "
        f"{'unknown' if load is None else f'{load:g}'}. Headline: {result['budget']}."
    )
    headers = ("stage", "features", "p50 ms", "p95 ms", "CPU ms", "disk MiB", "memory MiB")
    lengths = [
        [f"{run['seconds']:g} s", str(run["threads"]), *_times(run["total"]), f"{run['total']['rtf']:.3f}"]
        for run in result["runs"]
    ]
    return [
        Table("Table IV: cost of a decision and its units", caption, headers, rows),
        Table(
            "Table IV by length",
            "A whole decision and its units.",
            ("speech", "threads", "p50 ms", "p95 ms", "CPU ms", "real-time factor"),
            lengths,
        ),
    ]


def _stage(stage: Mapping[str, Any], model: Mapping[str, Any] | None) -> list[str]:
    sizes = ["", ""] if model is None else [f"{model['disk_bytes'] / 2**20:.2f}", f"{model['running_rss_mib']:.1f}"]
    return [str(stage["features"]), *_times(stage["cost"]), *sizes]


def _times(cost: Mapping[str, float]) -> list[str]:
    return [f"{cost[name]:.1f}" for name in ("p50_ms", "p95_ms", "cpu_ms")]


def _disk(models: list[Mapping[str, Any]]) -> str:
    return f"{sum(model['disk_bytes'] for model in models) / 2**20:.2f}"
