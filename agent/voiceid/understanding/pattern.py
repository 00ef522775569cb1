"""Patterns of what may be said: a small language for sentences, and what a pattern means.

``word``; ``[optional]``; ``(one | another)``; ``<phrase>``; ``{slot}``; and ``a & b & c`` for the parts in any order.
``&`` binds more loosely than a sequence and ``|`` more loosely than ``&``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from voiceid.errors import GrammarError

TOKEN = re.compile(r"\s*(?:(?P<word>[a-z']+)|<(?P<phrase>\w+)>|\{(?P<slot>\w+)\}|(?P<sign>[\[\]()|&]))")
MOST_IN_ANY_ORDER = 5
"""Parts joined by ``&``: each is in the graph once for every subset of the others."""
MOST_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Word:
    """One word, of letters and apostrophes."""

    text: str


@dataclass(frozen=True, slots=True)
class Series:
    """All parts, one after another; none at all is silence."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the options."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOrder:
    """All parts, in any order."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A way to say a value of a slot. ``value`` is None where the value is the very words that were said."""

    value: str | None
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a sentence that one of the values takes."""

    name: str
    values: tuple[Value, ...]


Pattern = Word | Series | Choice | AnyOrder | Slot
NOTHING = Series(())
Lookup = Callable[[str], Pattern]


def parse(text: str, phrase: Lookup, slot: Lookup, where: str) -> Pattern:
    """The pattern that ``text`` writes down; ``phrase`` and ``slot`` find what names stand for.

    Raises:
        GrammarError: malformed; ``where`` says in which key.
    """
    return _Parser(text, phrase, slot, where).parse()


class _Parser:
    def __init__(self, text: str, phrase: Lookup, slot: Lookup, where: str) -> None:
        self._text, self._phrase, self._slot, self._where = text, phrase, slot, where
        self._at = self._depth = 0
        self._tokens = self._split()

    def parse(self) -> Pattern:
        if not self._tokens:
            raise self._error("is empty")
        pattern = self._choice()
        if self._at < len(self._tokens):
            raise self._error(f"has a {self._tokens[self._at][1]!r} that nothing opened")
        return pattern

    def _split(self) -> list[tuple[str, str]]:
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise self._error(
                    f"cannot be read at {text[at:].strip()[:20]!r}; words are of a-z and ', "
                    "signs are [ ] ( ) | & <phrase> {slot}"
                )
            kind = str(found.lastgroup)
            tokens.append((kind, found[kind]))
            at = found.end()
        return tokens

    def _choice(self) -> Pattern:
        options = [self._any_order()]
        while self._take("|"):
            options.append(self._any_order())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _any_order(self) -> Pattern:
        parts = [self._series()]
        while self._take("&"):
            parts.append(self._series())
        if len(parts) > MOST_IN_ANY_ORDER:
            raise self._error(f"joins {len(parts)} parts by &; at most {MOST_IN_ANY_ORDER}")
        return parts[0] if len(parts) == 1 else AnyOrder(tuple(parts))

    def _series(self) -> Pattern:
        parts: list[Pattern] = []
        while self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == "sign" and text in ")]|&":
                break
            self._at += 1
            parts.append(self._part(kind, text))
        if not parts:
            raise self._error("has nothing where words are expected")
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _part(self, kind: str, text: str) -> Pattern:
        if kind == "word":
            return Word(text)
        if kind == "phrase":
            return self._phrase(text)
        if kind == "slot":
            return self._slot(text)
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._error(f"nests deeper than {MOST_DEPTH}")
        inner = self._choice()
        self._depth -= 1
        closing = "]" if text == "[" else ")"
        if not self._take(closing):
            raise self._error(f"has a {text!r} without its {closing!r}")
        return inner if text == "(" else Choice((inner, NOTHING))

    def _take(self, sign: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign)
        self._at += found
        return found

    def _error(self, problem: str) -> GrammarError:
        return GrammarError(f"{self._where} {problem}: {self._text!r}")
