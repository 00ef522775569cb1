"""Reading the file that describes a study."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from tools.studies.errors import StudyError
from voiceid.tables import from_table

T = TypeVar("T")


def read_toml(cls: type[T], path: Path) -> T:
    """The study of dataclass ``cls`` in the TOML file at ``path``.

    Raises:
        StudyError: unreadable, not TOML, or unknown, missing or mistyped keys.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"{path}: cannot be read as TOML ({error})") from error
    return from_table(cls, table, where=str(path), error=StudyError)
