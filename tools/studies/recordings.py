"""What holds of a study's recordings whatever it asks of them: each has one owner and one use."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.evaluation.trials import same_recording
from tools.studies.errors import StudyError
from tools.train.data.corpus import Item
from voiceid.enrolment.names import check_name
from voiceid.errors import EnrolmentError


def distinct(items: Iterable[Item]) -> list[Item]:
    """``items`` without those that may hold a recording that came before."""
    taken: list[Item] = []
    for item in items:
        if not any(same_recording(before, item) for before in taken):
            taken.append(item)
    return taken


def check_names(speakers: Iterable[str], where: Path) -> None:
    """Every speaker of the index ``where`` can name files and folders.

    Raises:
        StudyError: one cannot.
    """
    for speaker in speakers:
        try:
            check_name(speaker)
        except EnrolmentError as error:
            raise StudyError(f"{where}: {error}; rename the speaker in the index") from error


def check_owners(items: Iterable[Item], where: Path) -> None:
    """Every file of the index ``where`` is one speaker's.

    Raises:
        StudyError: a file is listed for two.
    """
    owners: dict[Path, str] = {}
    for item in items:
        if owners.setdefault(item.path, item.speaker) != item.speaker:
            raise StudyError(f"{where}: {item.path} is said to be of {owners[item.path]} and of {item.speaker}")


def check_copies(items: Iterable[Item]) -> None:
    """No file is a copy of another: one could be enrolled and the other tried. Files that are missing are passed over.

    Raises:
        StudyError: two files hold the same bytes.
    """
    sizes: dict[int, set[Path]] = defaultdict(set)
    for item in items:
        if item.path.is_file():
            sizes[item.path.stat().st_size].add(item.path)
    copies = [pair for paths in sizes.values() if len(paths) > 1 for pair in _copies(sorted(paths))]
    if copies:
        copy, original = copies[0]
        more = f" (and {len(copies) - 1} more such pairs)" if len(copies) > 1 else ""
        raise StudyError(f"{copy} is a copy of {original}{more}; take it out of the index: a recording has one use")


def _copies(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Those of ``paths`` that hold what one before them holds, with that one."""
    first: dict[bytes, Path] = {}
    found = []
    for path in paths:
        original = first.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
        if original != path:
            found.append((path, original))
    return found
