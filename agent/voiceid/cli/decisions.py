"""A decision for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from voiceid.cli.exit_codes import code_of_outcome
from voiceid.cli.output import plain

if TYPE_CHECKING:
    from voiceid.types import Decision

STYLES = {"accepted": "bold green", "inconclusive": "bold yellow", "not_enrolled": "bold yellow"}


def decision_json(decision: Decision, **more: Any) -> dict[str, Any]:
    """``decision`` in JSON's types with its exit code; ``more`` comes first."""
    table = plain(decision)
    if decision.evidence is not None:
        for name, score in decision.evidence.scores().items():
            table["evidence"][name]["passed"] = score.verdict
    return {**more, **table, "exit_code": int(code_of_outcome(decision.outcome))}


def headline(decision: Decision, subject: str) -> Text:
    """The outcome in one line."""
    text = Text(decision.outcome.value.replace("_", " "), style=STYLES.get(decision.outcome.value, "bold red"))
    text.append(f"  {subject}", style="bold")
    return text.append(fused(decision.voiceid, decision.voiceid_threshold), style="default")


def fused(voiceid: float | None, threshold: float | None) -> str:
    """The VoiceID score as a headline ends, where there is one."""
    if voiceid is None or threshold is None:
        return ""
    return f"  VoiceID score {voiceid:.3f} (accepted from {threshold:.3f})"


def reasons(decision: Decision) -> Text:
    """Why."""
    return Text("\n".join(f"  {reason}" for reason in decision.reasons))


def scores(decision: Decision) -> Table | Text:
    """The judges' scores with their thresholds, and what was taken off because the owner's enrolment scores high."""
    if decision.evidence is None:
        return Text("")
    judged = decision.evidence.scores()
    shifted = any(score.shift for score in judged.values())
    table = Table("judge", "score (llr)", *(["less the owner's"] if shifted else []), "threshold", "", box=None)
    for name, score in judged.items():
        own = [f"{score.shift:+.2f}" if score.shift else ""] if shifted else []
        threshold = "" if score.verdict is None else f"{score.threshold:+.2f}"
        table.add_row(name, f"{score.llr:+.2f}", *own, threshold, shown_verdict(score.verdict))
    return table


def shown_verdict(passed: bool | None) -> Text:
    """How it is told whether a score passed, None standing for one that had no enrolled speaker to compare with."""
    if passed is None:
        return Text("not compared: no user named", style="dim")
    return Text("pass", style="green") if passed else Text("fail", style="red")


def timings(decision: Decision) -> Text:
    """Time per stage in one line."""
    stages = (f"{stage} {ms:.0f}" for stage, ms in decision.timings.items())
    return Text(f"  ms: {', '.join(stages)}" if decision.timings else "", style="dim")
