"""Trials: one clip of the corpus on one template, with what the whole agent and its identity judge alone said."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tools.studies.errors import StudyError
from tools.studies.results import whole_file
from tools.studies.voiceid.recipes import FULL, LIVE, PLAYED, REPLAY
from voiceid.types import Outcome

SCORES = ("identity", "spoofing", "liveness", "consistency")


@dataclass(frozen=True, slots=True)
class Trial:
    """``speaker`` is whose voice the clip holds or claims, ``template`` whose enrolment it was tried on.

    ``llr`` are the judges' scores in the order of :data:`SCORES`, empty where the quality gate refused the clip.
    ``failed`` names the gates that refused it, joined by "+".
    """

    path: str
    set: str
    kind: str
    system: str
    speaker: str
    template: str
    outcome: str
    failed: str
    llr: tuple[float, ...]

    @property
    def target(self) -> bool:
        return self.speaker == self.template

    @property
    def live(self) -> bool:
        return self.set in LIVE

    @property
    def judged(self) -> bool:
        return bool(self.llr)

    @property
    def accepted(self) -> bool:
        """By the whole agent."""
        return self.outcome == Outcome.ACCEPTED

    @property
    def accepted_by_identity(self) -> bool:
        """By an agent that asks nothing but who speaks, with the same quality gate and threshold."""
        return self.judged and "identity" not in self.failed.split("+")

    @property
    def attack(self) -> str:
        """none, spoof, replay or replayed-spoof, as fusion trials name what is wrong with the audio."""
        if self.live:
            return "none"
        if self.set == REPLAY:
            return "replay"
        return "replayed-spoof" if self.set.endswith(PLAYED) else "spoof"

    @property
    def whole(self) -> bool:
        """One voice throughout: not a partially spoofed command."""
        return self.live or self.set in (FULL, FULL + PLAYED, REPLAY)


COLUMNS = (*(field.name for field in fields(Trial) if field.name != "llr"), *SCORES)


def write_trials(path: Path, trials: Iterable[Trial]) -> None:
    """Write a CSV file, a line a trial."""
    names = COLUMNS[: -len(SCORES)]
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for trial in trials:
            scores = [f"{value:.6g}" for value in trial.llr] or [""] * len(SCORES)
            writer.writerow([*(getattr(trial, name) for name in names), *scores])


def read_trials(path: Path) -> list[Trial]:
    """The trials that :func:`write_trials` wrote.

    Raises:
        StudyError: missing, or not such a file.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if missing := set(COLUMNS) - set(reader.fieldnames or ()):
                raise KeyError(*sorted(missing))
            return list(_parse(reader))
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise StudyError(f"{path}: not a table of trials ({error!r}); make it with the step 'score'") from error


def _parse(rows: Iterable[dict[str, str]]) -> Iterator[Trial]:
    for row in rows:
        scores: Sequence[str] = [row[name] for name in SCORES]
        llr = tuple(map(float, scores)) if any(scores) else ()
        if not all(map(math.isfinite, llr)):
            raise ValueError(f"{row['path']}: scores {llr}")
        yield Trial(**{name: row[name] for name in COLUMNS[: -len(SCORES)]}, llr=llr)
