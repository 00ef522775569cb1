"""Dataclasses from decoded TOML or JSON tables: every key, type and range checked."""

from __future__ import annotations

import dataclasses
import math
import re
import reprlib
import tomllib
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

T = TypeVar("T")

_MOST_DOTS = 100
"""In a line of TOML: Python's reader takes the square of a key's parts in time and memory."""


@dataclass(frozen=True, slots=True)
class Between:
    """Annotates a number with the least and the most it may be."""

    least: float
    most: float

    def problem(self, value: float) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        return None if self.least <= value <= self.most else f"must lie between {self.least:g} and {self.most:g}"


@dataclass(frozen=True, slots=True)
class Named:
    """Annotates a text or path that names something: not empty, without NUL."""

    def problem(self, value: str) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        return None if value.strip() and "\0" not in value else "must not be empty or hold a NUL character"


@dataclass(frozen=True, slots=True)
class Finite:
    """Annotates a number that must not be infinite."""

    def problem(self, value: float) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        return None if math.isfinite(value) else "must be finite"


def read_toml(text: str) -> dict[str, Any]:
    """The table that the TOML ``text`` writes down.

    Raises:
        ValueError: it is none, or would take forever to read.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS:
            raise ValueError(f"line {number} has over {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The JSON object of ``pairs``, for :func:`json.loads`.

    Raises:
        ValueError: a key appears twice: which of them counts would be up to the reader.
    """
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"key {_shown(key)} appears twice")
        table[key] = value
    return table


def is_sha256(text: str) -> bool:
    """Whether ``text`` is a SHA-256 in lower-case hexadecimal."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


@dataclass(frozen=True, slots=True)
class Digest:
    """Annotates a text that is a SHA-256."""

    def problem(self, value: str) -> str | None:
        """What is wrong with ``value``, None if nothing is."""
        return None if is_sha256(value) else "must be a SHA-256 in hexadecimal"


def from_table(cls: type[T], table: Any, *, where: str, error: type[Exception]) -> T:
    """Build dataclass ``cls`` from a decoded TOML or JSON table; unknown, missing and mistyped keys raise ``error``."""
    if not isinstance(table, dict):
        raise error(f"{where}: expected a table, found {type(table).__name__}")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(table) - set(fields)):
        raise error(f"{where}: unknown key {_shown(unknown[0])}; known keys: {', '.join(sorted(fields))}")
    hints = typing.get_type_hints(cls, include_extras=True)
    required = {
        n for n, f in fields.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(table)):
        raise error(f"{where}: missing key {missing[0]!r}")
    values = {name: _convert(hints[name], value, f"{where}: {name}", error) for name, value in table.items()}
    return cls(**values)


def _convert(hint: Any, value: Any, where: str, error: type[Exception]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        converted = _convert(arguments[0], value, where, error)
        for problem in filter(None, (rule.problem(value) for rule in arguments[1:])):
            raise error(f"{where} is {_shown(value)}; it {problem}")
        return converted
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where, error)
    if origin is Literal:
        if value not in arguments:
            raise error(f"{where} is {_shown(value)}; use one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(arguments[0], item, f"{where}[{i}]", error) for i, item in enumerate(value))
    if origin is list and isinstance(value, list):
        return [_convert(arguments[0], item, f"{where}[{i}]", error) for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {str(k): _convert(arguments[1], item, f"{where}.{k}", error) for k, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_table(typing.cast(type, hint), value, where=where, error=error)
    if hint is float and isinstance(value, float) and math.isnan(value):
        raise error(f"{where} is not a number")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise error(f"{where} is larger than any float") from None
    if hint is Path and isinstance(value, str):
        try:
            return Path(value).expanduser()
        except RuntimeError:
            raise error(f"{where} is {_shown(value)}; there is no such home folder") from None
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise error(f"{where} is {_shown(value)}; expected {getattr(hint, '__name__', hint)}")


def _shown(value: Any) -> str:
    """``value`` in a message of one line, however long it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no integer of over 4300 digits
        return "a number of thousands of digits"
