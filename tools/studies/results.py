"""Result files of studies: written whole or not at all, and kept while what they were made from stays the same."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tools.studies.errors import StudyError
from voiceid.audio.files import promised_seconds

CLAIM = "made-with.json"
"""In a folder of results: what they were made with."""
KEY = "made_from"
"""Entry of a result that holds the digest of what it was made from."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that replaces ``path`` when the block ends well.

    Raises:
        OSError: with ``path``, or the folder that cannot be made, as its file name.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def is_whole(path: Path) -> bool:
    """Whether all the audio that the file's header promises is there: not of a missing or damaged file."""
    try:
        promised = promised_seconds(path)  # libsndfile tells of a WAV file only what is there
        with soundfile.SoundFile(path) as file:
            length = len(file.read(dtype="int16"))
            return 0 < length == file.frames and (promised is None or round(promised * file.samplerate) == length)
    except (OSError, soundfile.SoundFileError, RuntimeError):
        return False


def write_json(path: Path, content: Any) -> None:
    """Write JSON; NaN and infinity become null."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n", "utf-8")


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file with a header."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def read_json(path: Path) -> Any:
    """Raises StudyError where the file is missing or not JSON (interrupted copies, for one)."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: not a readable result file ({error}); remove it, and make it anew") from error


def claim(folder: Path, description: dict[str, Any]) -> None:
    """Note in ``folder`` what its files are made with.

    Raises:
        StudyError: it says that they are made with something else.
    """
    path, wanted = folder / CLAIM, finite(description)
    if not path.exists():
        write_json(path, wanted)
    elif (found := read_json(path)) != wanted:
        raise StudyError(f"{folder} holds files made with {found}, not {wanted}; remove it or name another folder")


def digest(*parts: Any) -> str:
    """A short hash of values whose ``repr`` says all of them."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]


def kept(
    path: Path, made_from: str, make: Callable[[], dict[str, Any]], *, beside: Sequence[Path] = ()
) -> dict[str, Any]:
    """The result in ``path`` if it was ``made_from`` the same, else a new one, written there.

    A file that cannot be read is made anew, as is a result without the files ``beside`` it that belong to it.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if result[KEY] == made_from and all(file.exists() for file in beside):
            return result
    except (OSError, ValueError, TypeError, KeyError):
        pass
    result = finite({**make(), KEY: made_from})
    write_json(path, result)
    return result


def finite(content: Any) -> Any:
    """``content`` with NaN and infinity as None and arrays and tuples as lists, all the way down."""
    if isinstance(content, dict):
        return {str(key): finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    if isinstance(content, np.ndarray):
        return finite(content.tolist())
    if isinstance(content, np.generic):
        return finite(content.item())
    return None if isinstance(content, float) and not math.isfinite(content) else content
