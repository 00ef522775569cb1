"""Which recordings a study compares: the genuine ones, its attacks at each budget, and attacks recorded by others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.studies.adversarial.config import GENUINE, Attack, Study
from tools.studies.adversarial.trials import Trial, read_trials
from tools.studies.errors import StudyError


@dataclass(frozen=True, slots=True)
class Case:
    """One trial with the recording that is tried, the one it was made from, and the name of its copies."""

    trial: Trial
    recording: Path
    original: Path
    copy: str


@dataclass(frozen=True, slots=True)
class Condition:
    """Trials of one kind; ``attack`` and ``epsilon`` where they are this study's own."""

    name: str
    cases: tuple[Case, ...]
    attack: Attack | None = None
    epsilon: float | None = None


def attacked_path(study: Study, attack: Attack, epsilon: float, trial: Trial) -> Path:
    """Where the adversarial recording of ``trial`` lies."""
    return study.output / "audio" / attack.condition(epsilon) / f"{trial.key}.flac"


def conditions(study: Study) -> list[Condition]:
    """All conditions of the study, the genuine one first.

    Raises:
        StudyError: a list cannot be read, or an attack was not carried out on all of its trials.
    """
    found = [_listed(GENUINE, study.trials, study)]
    for attack in study.attacks:
        trials = read_trials(attack.trials)
        for epsilon in attack.epsilons:
            cases = tuple(
                Case(trial, attacked_path(study, attack, epsilon, trial), study.data / trial.test, trial.key)
                for trial in trials
            )
            if missing := [case for case in cases if not case.recording.is_file()]:
                raise StudyError(
                    f"attack {attack.condition(epsilon)}: {len(missing)} of {len(cases)} recordings are missing, such "
                    f"as that of '{missing[0].trial}'; run 'attack' again, or take the trials out of {attack.trials}"
                )
            found.append(Condition(attack.condition(epsilon), cases, attack, epsilon))
    return found + [_listed(one.name, one.trials, study) for one in study.recorded]


def _listed(name: str, trials: Path, study: Study) -> Condition:
    cases = []
    for trial in read_trials(trials):
        path = study.data / trial.test
        cases.append(Case(trial, path, path, hashlib.sha256(trial.test.encode()).hexdigest()[:16]))
    return Condition(name, tuple(cases))
