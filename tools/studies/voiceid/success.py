"""Table I: how often attacks succeed against an agent that only asks who speaks, and against the whole agent.

Both agents hear the same clips through the same quality gate, with the identity threshold of the operating point; the
whole agent must also pass its spoofing, liveness and consistency gates and the fused score. An attack succeeds if it
is accepted; one that the quality gate turns away has failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tools.evaluation.report import rate
from tools.studies.results import digest, kept
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.recipes import LABELS, STRANGERS
from tools.studies.voiceid.tables import Table, share
from tools.studies.voiceid.trials import Trial, read_trials

IDENTITY_ONLY, AGENT = "identity_only", "agent"


def step(study: Study) -> dict[str, Any]:
    """Success rates by set and by system."""
    path = study.output / "trials.csv"
    trials = read_trials(path)
    key = digest(path.read_bytes())
    return kept(study.output / "success.json", key, lambda: summarise(trials))


def summarise(trials: Sequence[Trial]) -> dict[str, Any]:
    """Rates of both agents for genuine commands, strangers and aimed attacks."""
    groups: dict[str, list[Trial]] = defaultdict(list)
    systems: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.target:
            groups[trial.set].append(trial)
            if not trial.live:
                systems[trial.set, trial.system.split(" by ")[0]].append(trial)
        elif trial.live:
            groups[STRANGERS].append(trial)
    return {
        "sets": {name: _rates(groups[name]) for name in LABELS if name in groups},
        "systems": [{"set": name, "system": system, **_rates(own)} for (name, system), own in sorted(systems.items())],
        "targets": len({trial.template for trial in trials}),
        "trials": len(trials),
    }


def _rates(trials: Sequence[Trial]) -> dict[str, Any]:
    """Acceptance by each agent with Wilson's interval, and how many people at least one of the clips passed for."""
    people = {trial.template for trial in trials}
    passed = {
        IDENTITY_ONLY: [trial for trial in trials if trial.accepted_by_identity],
        AGENT: [trial for trial in trials if trial.accepted],
    }
    return {
        **{name: rate(len(accepted), len(trials)) for name, accepted in passed.items()},
        "people": len(people),
        "people_fooled": {name: len({trial.template for trial in accepted}) for name, accepted in passed.items()},
        "inconclusive": sum(not trial.judged for trial in trials),
    }


def tables(result: dict[str, Any]) -> list[Table]:
    """By kind of attack, then by system."""
    headers = (
        "accepted",
        "identity only",
        "whole agent",
        "people: identity only",
        "people: whole agent",
        "unfit",
        "trials",
    )
    rows = [[LABELS[name], *_cells(part)] for name, part in result["sets"].items()]
    caption = (
        f"Share accepted, with Wilson's 95 % interval (which takes trials for independent), of {result['targets']} "
        "people; how many of them at least one clip passed for; clips that the quality gate turned away. For genuine "
        "commands more is better, for all else less."
    )
    detail = [[LABELS[part["set"]], part["system"], *_cells(part)] for part in result["systems"]]
    return [
        Table("Table I: success of attacks", caption, headers, rows),
        Table(
            "Table I by system",
            "The same, by the system that made the clips.",
            (headers[0], "system", *headers[1:]),
            detail,
        ),
    ]


def _cells(part: dict[str, Any]) -> list[str]:
    fooled = [f"{part['people_fooled'][name]} of {part['people']}" for name in (IDENTITY_ONLY, AGENT)]
    rates = [share(part[name]) for name in (IDENTITY_ONLY, AGENT)]
    return [*rates, *fooled, str(part["inconclusive"]), str(part[AGENT]["n"])]
