"""Who takes part in the study, and which of their recordings are enrolled, tried, and stolen by the attacker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import soundfile

from tools.evaluation.selection import read_rows
from tools.evaluation.trials import enrolment_order
from tools.studies.errors import StudyError
from tools.studies.recordings import check_copies, check_names, check_owners, distinct
from tools.studies.voiceid.config import Study
from tools.train.data.corpus import Item

SHORTEST = 2.0
"""Seconds of a recording that is used at all."""


@dataclass(frozen=True, slots=True)
class Person:
    """One participant's recordings by use; none of the three shares a recording with another."""

    name: str
    enrolment: tuple[Item, ...]
    genuine: tuple[Item, ...]
    stolen: tuple[Item, ...]

    @property
    def recordings(self) -> tuple[Item, ...]:
        return (*self.enrolment, *self.genuine, *self.stolen)


@dataclass(frozen=True, slots=True)
class Cast:
    """The participants, and the recordings of other people, from which only the voice of units is learnt."""

    people: tuple[Person, ...]
    others: tuple[Item, ...]


def choose(study: Study) -> Cast:
    """The participants that ``study`` asks for, or as many as the data has, by how much speech there is of them.

    Raises:
        StudyError: fewer than two people have recordings enough, or a recording is there twice or of two people.
    """
    rows = [row for row in read_rows(study.data) if row.kind == "bonafide" and row.speaker]
    check_owners(rows, study.data)
    speakers: dict[str, list[Item]] = defaultdict(list)
    for row in rows:
        if (not study.sets or row.set in study.sets) and study.split in (None, row.split) and seconds(row) >= SHORTEST:
            speakers[row.speaker].append(row)
    check_names(speakers, study.data)
    most_first = sorted(speakers.values(), key=lambda own: (-sum(map(seconds, own)), own[0].speaker))
    complete = (person for own in most_first if (person := _person(own, study)) is not None)
    people = list(islice(complete, study.people.count))
    if len(people) < 2:
        raise StudyError(
            f"{study.data}: {len(people)} of {len(speakers)} speakers have the {study.people.enrolment} recordings to "
            f"enrol, one to try and one to steal, of {SHORTEST:g} s or more each; check sets and split, or bring more"
        )
    check_copies(item for person in people for item in person.recordings)
    names = {person.name for person in people}
    return Cast(tuple(people), tuple(row for row in rows if row.speaker not in names))


def seconds(item: Item) -> float:
    """Length of a recording, from the index or the file's header; 0 where neither tells."""
    if item.seconds > 0:
        return item.seconds
    try:
        return float(soundfile.info(item.path).duration)
    except (OSError, soundfile.LibsndfileError):
        return 0.0


def _person(own: Sequence[Item], study: Study) -> Person | None:
    """The uses of one speaker's recordings; None where they are too few."""
    queue = distinct(enrolment_order(own, study.seed))
    enrolment = _take(queue, study.people.enrolment)
    genuine = _take(queue, study.people.genuine)
    stolen: list[Item] = []
    while queue and sum(map(seconds, stolen)) < study.people.stolen_seconds:
        stolen.append(queue.pop(0))
    if len(genuine) > 1 and not stolen:
        stolen.append(genuine.pop())
    complete = len(enrolment) == study.people.enrolment and genuine and stolen
    return Person(own[0].speaker, tuple(enrolment), tuple(genuine), tuple(stolen)) if complete else None


def _take(queue: list[Item], count: int) -> list[Item]:
    taken, queue[:] = queue[:count], queue[count:]
    return taken
