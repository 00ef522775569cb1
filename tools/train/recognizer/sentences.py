"""Sentences that a grammar allows, drawn at random, with what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceid.understanding.grammar import Grammar
from voiceid.understanding.pattern import AnyOrder, Choice, Pattern, Series, Slot, Word


@dataclass(frozen=True, slots=True)
class Command:
    """A sentence, its intent and its slots."""

    text: str
    intent: str
    slots: dict[str, str]


def draw(grammar: Grammar, rng: np.random.Generator) -> Command:
    """One sentence of a random intent; alternatives are equally likely, whatever is behind them."""
    names = list(grammar.intents)
    intent = names[int(rng.integers(len(names)))]
    slots: dict[str, str] = {}
    words = _draw(grammar.intents[intent], rng, slots)
    return Command(" ".join(words), intent, slots)


def _draw(pattern: Pattern, rng: np.random.Generator, slots: dict[str, str]) -> list[str]:
    match pattern:
        case Word(text):
            return [text]
        case Series(parts):
            return [word for part in parts for word in _draw(part, rng, slots)]
        case Choice(options):
            return _draw(options[int(rng.integers(len(options)))], rng, slots)
        case AnyOrder(parts):
            return [word for i in rng.permutation(len(parts)) for word in _draw(parts[i], rng, slots)]
        case Slot(name, values):
            chosen = values[int(rng.integers(len(values)))]
            words = _draw(chosen.pattern, rng, slots)
            slots[name] = chosen.value or " ".join(words)
            return words
