"""Where the recordings of a data set lie, and who speaks in them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.studies.errors import StudyError

SHORT_NAMES = {"vox1": "v1", "vox2": "v2", "vox": "v", "vox-test": "v-test", "mayo-speech": "ms"}
"""How the study abbreviates data sets in file names."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One file of a speaker; ``video`` names the session it belongs to (recordings of one are near-duplicates)."""

    path: Path
    speaker: str
    video: str
    task: str
    data_type: str


def find_recordings(
    folder: Path, data_type: str, *, suffix: str = ".npy", table: Path | None = None
) -> list[Recording]:
    """All recordings of a data set, in the order of their paths.

    ``vox*``: FOLDER/.../SPEAKER/VIDEO/FILE. ``mayo-speech``: FILE or FILE_PART anywhere, looked up in ``table``, a CSV
    with file_name, speakerID, task. Any other name: FOLDER/SPEAKER/FILE or FOLDER/SPEAKER/VIDEO/FILE, with tasks by
    file name from ``table`` where given.

    Raises:
        StudyError: no such folder, no files, a file of no speaker, a missing table or column.
    """
    if not folder.is_dir():
        raise StudyError(f"{folder}: no such folder")
    paths = sorted(p for p in folder.rglob(f"*{suffix}") if p.is_file())
    if not paths:
        raise StudyError(f"{folder}: no *{suffix} files; make embeddings first (embed)")
    describe = _layout(data_type, folder, table)
    return [describe(path) for path in paths]


def _layout(data_type: str, folder: Path, table: Path | None) -> Callable[[Path], Recording]:
    if data_type == "mayo-speech":
        if table is None:
            raise StudyError("data set mayo-speech: name its description (--dataset)")
        rows = read_table(table, ("file_name", "speakerID", "task"))
        return _Described(table, {row["file_name"]: row for row in rows})
    if data_type.startswith("vox"):
        return _Vox(folder, data_type)
    tasks = read_table(table, ("file_name", "task")) if table else []
    return _Generic(folder, data_type, {row["file_name"]: row["task"] for row in tasks})


@dataclass(frozen=True, slots=True)
class _Vox:
    folder: Path
    data_type: str

    def __call__(self, path: Path) -> Recording:
        parts = path.relative_to(self.folder).parts
        if len(parts) < 3:
            raise StudyError(f"{path}: expected SPEAKER/VIDEO/FILE below {self.folder}")
        return Recording(path, parts[-3], parts[-2], "", self.data_type)


@dataclass(frozen=True, slots=True)
class _Described:
    table: Path
    rows: dict[str, dict[str, str]]

    def __call__(self, path: Path) -> Recording:
        row = self.rows.get(path.stem) or self.rows.get(path.stem.split("_")[0])
        if row is None:
            raise StudyError(f"{path}: {self.table} has no row for file_name {path.stem!r}")
        if not row["speakerID"]:
            raise StudyError(f"{self.table}: file_name {row['file_name']!r} has no speakerID")
        return Recording(path, row["speakerID"], row["file_name"], row["task"], "mayo-speech")


@dataclass(frozen=True, slots=True)
class _Generic:
    folder: Path
    data_type: str
    tasks: dict[str, str]

    def __call__(self, path: Path) -> Recording:
        parts = path.relative_to(self.folder).parts
        if len(parts) < 2:
            raise StudyError(f"{path}: lies in no speaker's folder; expected {self.folder}/SPEAKER/FILE")
        video = parts[1] if len(parts) > 2 else path.stem
        return Recording(path, parts[0], video, self.tasks.get(path.stem, ""), self.data_type)


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file with a header.

    Raises:
        StudyError: unreadable, empty, or one of ``columns`` is missing.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: cannot be read ({error})") from error
    if not rows:
        raise StudyError(f"{path}: has no rows")
    if missing := [column for column in columns if column not in rows[0]]:
        raise StudyError(f"{path}: no column {missing[0]!r}; it has {', '.join(map(str, rows[0]))}")
    return rows
