"""The demo's tables and its results as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from tools.demo.run import Trial
from voiceid.types import SAMPLE_RATE, Score

JUDGES = ("identity", "spoofing", "liveness", "consistency", "takeover")
VOICEID = "VoiceID"
CAPTION = (
    "Log-likelihood ratios and, for VoiceID, a probability; red is below the threshold. "
    "Takeover is asked of who identity refuses: a stranger throughout (high), or the owner in part."
)
BYTES_PER_SAMPLE = 2
UNITS_SHOWN = 16


def outcome_table(trials: Sequence[Trial]) -> Table:
    """Outcome, scores and time of every recording; every score must reach the threshold in its column's head."""
    thresholds = _thresholds(trials)
    table = Table(title="Decisions", title_justify="left", caption=CAPTION, caption_justify="left")
    table.add_column("case and recording")
    table.add_column("outcome")
    for judge in (*JUDGES, VOICEID):
        limit = thresholds.get(judge)
        table.add_column(judge if limit is None else f"{judge}\n≥ {_shown(judge, limit)}", justify="right")
    table.add_column("ms", justify="right")
    for case, group in groupby(trials, key=lambda trial: trial.case):
        table.add_row(Text(f"{case.title}: {case.expected}", "bold"))
        for trial in group:
            total = f"{trial.decision.timings.get('total', 0.0):.0f}"
            table.add_row(f"  {trial.clip.name}", _outcome(trial), *_scores(trial), total)
        table.add_section()
    return table


def time_table(trials: Sequence[Trial]) -> Table:
    """Median milliseconds of each stage over the recordings that were scored and went through it."""
    stages: dict[str, list[float]] = {}
    scored = (trial.decision for trial in trials if trial.decision.evidence is not None)
    for decision in scored:
        for stage, milliseconds in decision.timings.items():
            stages.setdefault(stage, []).append(milliseconds)
    stages["total"] = stages.pop("total", [])
    table = Table(title="Time per stage (median milliseconds)", title_justify="left")
    for stage in stages:
        table.add_column(stage, justify="right")
    table.add_row(*(f"{statistics.median(values):.1f}" if values else "" for values in stages.values()))
    return table


def sent_table(trials: Sequence[Trial]) -> Table:
    """What the service received for each accepted recording."""
    table = Table(title="Sent to the service", title_justify="left")
    for heading in ("recording", "units", "envelope", "raw audio", "share", "counter"):
        table.add_column(heading, justify="left" if heading in ("recording", "units") else "right", no_wrap=True)
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
    return [] if evidence is None else [(name, score) for name, score in evidence.scores().items() if name in JUDGES]


def _thresholds(trials: Sequence[Trial]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for trial in trials:
        limits |= {name: score.threshold for name, score in _named_scores(trial)}
        if trial.decision.voiceid_threshold is not None:
            limits[VOICEID] = trial.decision.voiceid_threshold
    return limits


def _outcome(trial: Trial) -> Text:
    if trial.right:
        return Text(f"✓ {trial.decision.outcome}", "green")
    return Text(f"✗ {trial.decision.outcome}", "bold red")


def _scores(trial: Trial) -> list[Text]:
    decision = trial.decision
    if decision.evidence is None or decision.voiceid is None or decision.voiceid_threshold is None:
        return [Text("–", "dim")] * (len(JUDGES) + 1)
    asked = dict(_named_scores(trial))
    cells = [
        Text(_shown(name, asked[name].llr), "" if asked[name].passed else "red") if name in asked else Text("–", "dim")
        for name in JUDGES
    ]
    passed = decision.voiceid >= decision.voiceid_threshold
    return [*cells, Text(_shown(VOICEID, decision.voiceid), "" if passed else "red")]


def _shown(judge: str, value: float) -> str:
    return f"{value:.3f}" if judge == VOICEID else f"{value:+.2f}"
