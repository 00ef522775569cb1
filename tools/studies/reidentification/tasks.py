"""Speech tasks of the unknown, known and overlapping speakers: wildcards and exclusions, read from a text file."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tools.studies.errors import StudyError


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Patterns such as ``s-*`` (a task with all its sub-tasks), ``s-physician``, and ``-s-physician`` to leave one
    out. Without patterns every task passes."""

    patterns: tuple[str, ...] = ()

    def __call__(self, task: str) -> bool:
        wanted = [p for p in self.patterns if not p.startswith("-")]
        unwanted = [p[1:] for p in self.patterns if p.startswith("-")]
        name = task.lower()
        return (not wanted or any(_matches(name, p) for p in wanted)) and not any(_matches(name, p) for p in unwanted)


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of each part of a split."""

    train: TaskFilter = TaskFilter()
    test: TaskFilter = TaskFilter()
    overlap: TaskFilter = TaskFilter()


def read_tasks(path: Path) -> Tasks:
    """Lines ``train PATTERN ...``, ``test PATTERN ...`` and ``overlap PATTERN ...`` (default: as ``test``).

    Raises:
        StudyError: unreadable, another first word, or no train or test patterns.
    """
    found: dict[str, list[str]] = {"train": [], "test": [], "overlap": []}
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read ({error})") from error
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        if words[0] not in found:
            raise StudyError(f"{path}, line {number}: starts with {words[0]!r}; use train, test or overlap")
        found[words[0]].extend(words[1:])
    for part in ("train", "test"):
        if not found[part]:
            raise StudyError(f"{path}: no tasks for {part}; write a line '{part} PATTERN ...'")
    train, test, overlap = (TaskFilter(tuple(found[part])) for part in ("train", "test", "overlap"))
    return Tasks(train, test, overlap if overlap.patterns else test)


def _matches(task: str, pattern: str) -> bool:
    pattern = pattern.lower()
    return fnmatchcase(task, pattern) or (pattern.endswith("-*") and task == pattern[:-2])
