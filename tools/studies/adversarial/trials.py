"""Trials: who is enrolled from which recordings, and which recording is tried."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.studies.errors import StudyError
from tools.studies.results import whole_file


@dataclass(frozen=True, slots=True)
class Trial:
    """``test`` is tried against the speaker of ``enrolment``; ``target``: it is the same person."""

    target: bool
    enrolment: tuple[str, ...]
    test: str

    def __str__(self) -> str:
        return f"{int(self.target)} {','.join(self.enrolment)} {self.test}"

    @property
    def key(self) -> str:
        """A short name that no other trial of a study has."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]


def read_trials(path: Path) -> tuple[Trial, ...]:
    """Read VoxCeleb's format, ``1 enrolment test`` a line (0: other people); several enrolments are joined by commas.

    Raises:
        StudyError: unreadable, empty, a line of another form, or a trial listed twice.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read as a list of trials ({error})") from error
    trials = tuple(_parse(line, f"{path}, line {i}") for i, line in enumerate(lines, start=1) if line.strip())
    if not trials:
        raise StudyError(f"{path}: no trials; write lines such as '1 enrolment.wav test.wav'")
    if len(set(trials)) < len(trials):
        twice = next(trial for trial in trials if trials.count(trial) > 1)
        raise StudyError(f"{path}: the trial '{twice}' is listed twice")
    return trials


def write_trials(path: Path, trials: Iterable[Trial]) -> None:
    """Write a list that :func:`read_trials` reads."""
    with whole_file(path) as temporary:
        temporary.write_text("".join(f"{trial}\n" for trial in trials), "utf-8")


def _parse(line: str, where: str) -> Trial:
    parts = line.split()
    if len(parts) != 3 or parts[0] not in ("0", "1"):
        raise StudyError(f"{where}: {line!r} is not 'LABEL ENROLMENT TEST' with label 1 (same person) or 0")
    enrolment = tuple(parts[1].split(","))
    if parts[2] in enrolment:
        raise StudyError(f"{where}: {parts[2]} is enrolled and tried; such a trial proves nothing")
    return Trial(parts[0] == "1", enrolment, parts[2])
