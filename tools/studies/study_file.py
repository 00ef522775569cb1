"""Reading the file that describes a study, or the same options on a command line."""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, TypeVar

from tools.studies.errors import StudyError
from voiceid.tables import Between, from_table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Annotates a number with the least that it may be; it must be finite."""

    least: float

    def problem(self, value: float) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        if value == math.inf:
            return "must be finite"
        return None if value >= self.least else f"must be at least {self.least:g}"


@dataclass(frozen=True, slots=True)
class FileName:
    """Annotates a text that names files of the study: letters, digits, ``-``, ``_`` and dots within."""

    def problem(self, value: str) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        return (
            None
            if re.fullmatch(r"[A-Za-z0-9][\w.-]*", value, re.ASCII)
            else "must be of letters, digits, -, _ and ., and start with one of the first two"
        )


Count = Annotated[int, AtLeast(1)]
Seed = Annotated[int, AtLeast(0)]
Positive = Annotated[float, AtLeast(1e-6)]
Probability = Annotated[float, Between(0, 1)]
Name = Annotated[str, FileName()]


def options_of(cls: type[T], arguments: argparse.Namespace) -> T:
    """Dataclass ``cls`` of the arguments that are called as its fields, checked as :func:`read_toml` does.

    Raises:
        StudyError: an impossible value.
    """
    given = {field.name: getattr(arguments, field.name, None) for field in fields(cls)}  # type: ignore[arg-type]
    table = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return from_table(cls, {n: v for n, v in table.items() if v is not None}, where="options", error=StudyError)


def refuse_twice(names: tuple[str, ...], where: str) -> None:
    """Raises StudyError where one of ``names`` is there twice, or none is."""
    if not names:
        raise StudyError(f"{where}: name at least one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"{where}: {twice[0]!r} is named twice")


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
