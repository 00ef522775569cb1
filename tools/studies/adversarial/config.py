"""A whole study in one TOML file, which every step reads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tools.studies.adversarial.speech import FULL_SCALE, LEAST_SPEECH
from tools.studies.errors import StudyError
from tools.studies.study_file import AtLeast, Count, Seed, read_toml, refuse_twice
from voiceid.settings import ModelSettings
from voiceid.tables import Between

GENUINE = "genuine"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
FALSE_POSITIVES = (0.05, 0.01, 0.005, 0.001)
"""The study's false positive rates of detection."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack at several budgets ``epsilons``, in steps of ``alpha``, both in int16 units."""

    name: str
    trials: Path
    epsilons: tuple[Annotated[float, Between(1, FULL_SCALE)], ...] = (5.0, 10.0, 15.0, 20.0)
    alpha: Annotated[float, Between(1e-3, FULL_SCALE)] = 1.0
    method: Literal["bim", "pgd"] = "bim"
    steps: Count | None = None
    """Of PGD; BIM, and PGD by default, take ceil(epsilon / alpha)."""
    model: str | None = None
    """The model whose gradient is followed, where it is not the one under attack: a transfer attack."""
    transform: str | None = None
    """The transform that the adversary knows: an adaptive attack."""
    seed: Seed = 0

    def condition(self, epsilon: float) -> str:
        """The name of this attack at one budget."""
        return f"{self.name}-{epsilon:g}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Adversarial recordings made by others, tried as listed."""

    name: str
    trials: Path


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of trials to make from ``data``'s index, as the options of ``trials``."""

    file: Path
    sets: tuple[str, ...]
    """Whose bona fide recordings enrol and are tried."""
    recorded: tuple[str, ...] = ()
    """Sets whose adversarial recordings are tried instead."""
    split: Literal["train", "dev", "test"] | None = None
    """Only people of this split of the training corpus."""
    enrolment: Count = 3
    """Recordings of a template."""
    tests: Count = 2
    """Recordings of a speaker that are tried."""
    impostors: Count = 1
    """Other templates that each is tried against."""
    only: Literal["target", "nontarget"] | None = None
    """Leave the other kind of trial out."""
    limit: Count | None = None
    """At most so many target and so many non-target trials."""
    max_seconds: Annotated[float, AtLeast(LEAST_SPEECH)] | None = None
    """No longer recordings."""
    seed: Seed = 0


@dataclass(frozen=True, slots=True)
class Study:
    """``trials`` are genuine; paths in lists are relative to ``data`` (default: ``$VOICEID_CORPUS``); results lie in
    ``output``. ``lists`` are made by ``run`` before anything else."""

    output: Path
    trials: Path
    transforms: tuple[str, ...]
    data: Path = field(default_factory=lambda: Path(os.environ.get("VOICEID_CORPUS", "corpus")))
    lists: tuple[Listing, ...] = ()
    attacks: tuple[Attack, ...] = ()
    recorded: tuple[Recorded, ...] = ()
    card: str = ModelSettings().identity
    false_positives: tuple[float, ...] = FALSE_POSITIVES


def read_study(path: Path) -> Study:
    """Read a study; relative folders are relative to where the command runs.

    Raises:
        StudyError: unreadable, not TOML, unknown or mistyped keys, a value that makes no sense, or a name used twice.
    """
    study = read_toml(Study, path)
    names = [GENUINE, *(one.name for one in study.recorded)]
    names += [attack.condition(epsilon) for attack in study.attacks for epsilon in attack.epsilons]
    for name in (*names, *study.transforms):
        if not NAME.fullmatch(name.replace(".", "")):
            raise StudyError(f"{path}: the name {name!r} is not of letters, digits, - and _")
    refuse_twice(tuple(names), str(path))
    if not study.transforms or len(set(study.transforms)) < len(study.transforms):
        raise StudyError(f"{path}: transforms {list(study.transforms)}; name at least one, none twice")
    if study.lists:
        refuse_twice(tuple(os.path.normpath(one.file) for one in study.lists), f"{path}: lists")
    for one in study.lists:
        refuse_twice(one.sets, f"{path}: list {one.file}: sets")
    for attack in study.attacks:
        _check(attack, str(path))
    if bad := [rate for rate in study.false_positives if not 0 < rate < 1]:
        raise StudyError(f"{path}: a false positive rate of {bad[0]} does not lie between 0 and 1")
    refuse_twice(tuple(map(str, study.false_positives)), f"{path}: false_positives")
    return study


def _check(attack: Attack, where: str) -> None:
    checks = (
        (bool(attack.epsilons), "name at least one of epsilons"),
        (attack.steps is None or attack.method == "pgd", "steps are for method 'pgd'; BIM takes ceil(epsilon / alpha)"),
    )
    for good, message in checks:
        if not good:
            raise StudyError(f"{where}: attack {attack.name!r}: {message}")
