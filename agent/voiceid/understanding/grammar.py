"""Command grammars: what can be said to a service, written in TOML, and what each sentence means.

``name``, ``description``, ``[phrases]`` (patterns to reuse), ``[slots]`` (a list of patterns, whose value is what was
said, or a table of values, each with its patterns) and ``[intents]`` (patterns of whole sentences by intent). See
:mod:`voiceid.understanding.pattern` for patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from voiceid.errors import GrammarError
from voiceid.file_kind import FileKind, this_is
from voiceid.regular_file import read_regular
from voiceid.tables import from_table, read_toml
from voiceid.understanding.pattern import MOST_DEPTH, Choice, Pattern, Slot, Value, parse

MAX_GRAMMAR = 1 << 18
"""Bytes of a grammar file."""
SHIPPED = Path(__file__).parent / "grammars"
NAME = re.compile(r"\w+")
MOST_PARTS = 20_000
"""Words and signs of all patterns, those of a phrase wherever it is used."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What can be said, as one pattern an intent."""

    name: str
    description: str
    intents: dict[str, Pattern]


@dataclass(frozen=True, slots=True)
class _Table:
    """The grammar file as written."""

    name: str
    intents: dict[str, list[str]]
    description: str = ""
    phrases: dict[str, str] = field(default_factory=dict)
    slots: dict[str, object] = field(default_factory=dict)


def shipped_grammars() -> list[str]:
    """Names of the grammars that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_grammar(reference: str) -> Grammar:
    """The shipped grammar of the name ``reference``, or the one in the file at that path (ending in .toml).

    Raises:
        GrammarError: there is none, or it is malformed: the message names file, key and pattern.
    """
    path = Path(reference) if reference.endswith(".toml") else SHIPPED / f"{reference}.toml"
    try:
        data = read_regular(path, MAX_GRAMMAR)
        if other := this_is(data, FileKind.GRAMMAR):
            raise GrammarError(f"{path}: not a grammar{other}")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        if path.parent == SHIPPED:
            raise GrammarError(
                f"no grammar {reference!r}; shipped are {', '.join(shipped_grammars())}, "
                "or name a file of your own that ends in .toml"
            ) from None
        raise GrammarError(f"{path}: not a readable grammar ({error})") from error
    return read_grammar(text, str(path))


def read_grammar(text: str, where: str) -> Grammar:
    """The grammar that the TOML ``text`` writes down.

    Raises:
        GrammarError: malformed; ``where`` names its file.
    """
    try:
        raw = read_toml(text)
    except ValueError as error:
        raise GrammarError(f"{where}: no TOML: {error}") from None
    table = from_table(_Table, raw, where=where, error=GrammarError)
    reader = _Reader(table, where)
    if not table.intents:
        raise GrammarError(f"{where}: no intents; name at least one under [intents] with its sentences")
    return Grammar(table.name, table.description, {name: reader.intent(name) for name in table.intents})


class _Reader:
    def __init__(self, table: _Table, where: str) -> None:
        self._table, self._where, self._parts = table, where, 0
        for kind in ("phrases", "slots", "intents"):
            if odd := [name for name in getattr(table, kind) if not NAME.fullmatch(name)]:
                raise GrammarError(f"{where}: {kind}: name {odd[0]!r} may only hold letters, digits and _")
        self._slots = {name: self._read_slot(name, rows) for name, rows in table.slots.items()}

    def intent(self, name: str) -> Pattern:
        key = f"{self._where}: intents.{name}"
        if not self._table.intents[name]:
            raise GrammarError(f"{key} has no sentences; list at least one")
        options = [self._parse(text, key) for text in self._table.intents[name]]
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _parse(self, text: str, key: str, within: tuple[str, ...] = (), in_slot: bool = False) -> Pattern:
        self._parts += len(text.split()) + text.count("<")
        if self._parts > MOST_PARTS:
            raise GrammarError(f"{key}: the grammar says over {MOST_PARTS} words; use its phrases less often")
        slot = partial(self._no_slot, key) if in_slot else partial(self._slot, key)
        return parse(text, partial(self._phrase, key, within, in_slot), slot, key)

    def _phrase(self, key: str, within: tuple[str, ...], in_slot: bool, name: str) -> Pattern:
        if name not in self._table.phrases:
            raise GrammarError(f"{key} names the phrase <{name}>, which is not under [phrases]")
        if name in within:
            raise GrammarError(f"{self._where}: phrases.{name} holds itself, by way of {' -> '.join((*within, name))}")
        if len(within) >= MOST_DEPTH:
            raise GrammarError(f"{key}: phrases nest deeper than {MOST_DEPTH}")
        return self._parse(self._table.phrases[name], f"{self._where}: phrases.{name}", (*within, name), in_slot)

    def _slot(self, key: str, name: str) -> Pattern:
        if name not in self._slots:
            raise GrammarError(f"{key} names the slot {{{name}}}, which is not under [slots]")
        return self._slots[name]

    def _no_slot(self, key: str, name: str) -> Pattern:
        raise GrammarError(f"{key} names the slot {{{name}}} inside of a slot; use a <phrase>")

    def _read_slot(self, name: str, rows: object) -> Slot:
        key = f"{self._where}: slots.{name}"
        table = {None: rows} if isinstance(rows, list) else rows
        if not isinstance(table, dict) or not table:
            raise GrammarError(f"{key} must be a list of patterns, or a table of values with a list of patterns each")
        values: list[Value] = []
        for value, texts in table.items():
            if value is not None and not value.isprintable():
                raise GrammarError(f"{key}: value {value!r} holds signs that cannot be printed")
            if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
                raise GrammarError(f"{key}: {value or 'the list'} must be a list of at least one pattern")
            values.extend(Value(value, self._parse(text, key, in_slot=True)) for text in texts)
        return Slot(name, tuple(values))
