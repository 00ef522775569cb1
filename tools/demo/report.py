"""The demo's tables and its results as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tools.demo.run import Trial
from voiceid.types import SAMPLE_RATE, Score

JUDGES = ("identity", "spoofing", "liveness", "consistency")
BYTES_PER_SAMPLE = 2
UNITS_SHOWN = 24


def outcome_table(trials: Sequence[Trial]) -> Table:
    """Outcome, scores and time of every recording; every score must reach the threshold in its column's head."""
    thresholds = _thresholds(trials)
    table = Table(title="Decisions", title_justify="left", caption="log-likelihood ratios; red: below the threshold")
    for heading in ("case", "recording", "must be", "is"):
        table.add_column(heading)
    for judge in (*JUDGES, "VoiceID"):
        limit = thresholds.get(judge)
        table.add_column(judge if limit is None else f"{judge}\n≥ {limit:+.2f}", justify="right")
    table.add_column("ms", justify="right")
    previous = None
    for trial in trials:
        if previous is not None and trial.case is not previous:
            table.add_section()
        title = trial.case.title if trial.case is not previous else ""
        previous = trial.case
        mark = Text(f"{'✓' if trial.right else '✗'} {trial.decision.outcome}", "green" if trial.right else "bold red")
        total = f"{trial.decision.timings.get('total', 0.0):.0f}"
        table.add_row(title, trial.clip.name, str(trial.case.expected), mark, *_scores(trial), total)
    return table


def time_table(trials: Sequence[Trial]) -> Table:
    """Median milliseconds of each stage over the recordings that went through it."""
    stages: dict[str, list[float]] = {}
    for trial in trials:
        for stage, milliseconds in trial.decision.timings.items():
            stages.setdefault(stage, []).append(milliseconds)
    table = Table(title="Time per stage", title_justify="left", caption="median wall-clock milliseconds")
    for stage in stages:
        table.add_column(stage, justify="right")
    table.add_row(*(f"{statistics.median(values):.1f}" for values in stages.values()))
    return table


def sent_table(trials: Sequence[Trial]) -> Table:
    """What the service received for each accepted recording."""
    table = Table(title="Sent to the service", title_justify="left")
    for heading in ("recording", "units", "envelope", "raw audio", "share", "counter"):
        table.add_column(heading, justify="left" if heading in ("recording", "units") else "right")
    for trial in trials:
        if trial.receipt is None:
            continue
        received = trial.receipt.verified.units
        units = () if received is None else received.units
        shown = " ".join(map(str, units[:UNITS_SHOWN])) + (f" … ({len(units)})" if len(units) > UNITS_SHOWN else "")
        raw = len(trial.clip.samples) * BYTES_PER_SAMPLE
        size = trial.receipt.size
        table.add_row(
            trial.clip.name, shown, f"{size} B", f"{raw} B", f"{size / raw:.1%}", str(trial.receipt.verified.counter)
        )
    return table


def results(trials: Sequence[Trial]) -> dict[str, Any]:
    """Everything in the tables, for ``results.json``."""
    return {
        "right": sum(trial.right for trial in trials),
        "trials": len(trials),
        "recordings": [
            {
                "name": trial.name,
                "case": trial.case.title,
                "recording": trial.clip.name,
                "expected": trial.case.expected,
                "outcome": trial.decision.outcome,
                "right": trial.right,
                "reasons": list(trial.decision.reasons),
                "scores": {
                    name: {"llr": score.llr, "threshold": score.threshold} for name, score in _named_scores(trial)
                },
                "voiceid": trial.decision.voiceid,
                "voiceid_threshold": trial.decision.voiceid_threshold,
                "timings_ms": dict(trial.decision.timings),
                "envelope_bytes": trial.receipt.size if trial.receipt else None,
                "audio_bytes": len(trial.clip.samples) * BYTES_PER_SAMPLE,
                "seconds": len(trial.clip.samples) / SAMPLE_RATE,
            }
            for trial in trials
        ],
    }


def _named_scores(trial: Trial) -> list[tuple[str, Score]]:
    evidence = trial.decision.evidence
    return [] if evidence is None else [(judge, getattr(evidence, judge)) for judge in JUDGES]


def _thresholds(trials: Sequence[Trial]) -> dict[str, float]:
    for trial in trials:
        if trial.decision.evidence is not None and trial.decision.voiceid_threshold is not None:
            limits = {name: score.threshold for name, score in _named_scores(trial)}
            return {**limits, "VoiceID": trial.decision.voiceid_threshold}
    return {}


def _scores(trial: Trial) -> list[Text]:
    decision = trial.decision
    if decision.evidence is None or decision.voiceid is None or decision.voiceid_threshold is None:
        return [Text("–", "dim")] * (len(JUDGES) + 1)
    cells = [Text(f"{score.llr:+.2f}", "" if score.passed else "red") for _, score in _named_scores(trial)]
    passed = decision.voiceid >= decision.voiceid_threshold
    return [*cells, Text(f"{decision.voiceid:.3f}", "" if passed else "red")]
