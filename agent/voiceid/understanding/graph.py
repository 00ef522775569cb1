"""A grammar as a graph of letters, ready for a trellis.

Every arc writes one letter; a word is its space and its letters. Nodes are places between letters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import GrammarError
from voiceid.understanding.alphabet import encode
from voiceid.understanding.grammar import Grammar
from voiceid.understanding.pattern import AnyOrder, Choice, Pattern, Series, Slot, Word

MAX_ARCS = 50_000
Numbers = NDArray[np.int32]
Nodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class Graph:
    """Arcs from ``source`` to ``target`` that write ``label``, each in at most one slot (-1: none); node 0 begins.

    ``slots`` are name and value (None: the words said) of the slot numbers in ``slot``; ``ends`` are the nodes where
    each intent is complete.
    """

    grammar: str
    source: Numbers
    target: Numbers
    label: Numbers
    slot: Numbers
    slots: tuple[tuple[str, str | None], ...]
    ends: dict[str, Numbers]
    nodes: int


@dataclass(slots=True)
class _Builder:
    arcs: list[tuple[int, int, int, int]] = field(default_factory=list)
    slots: list[tuple[str, str | None]] = field(default_factory=list)
    nodes: int = 1

    def build(self, pattern: Pattern, starts: Nodes, slot: int = -1) -> Nodes:
        """Add ``pattern`` after every node of ``starts``; the nodes where it ends."""
        match pattern:
            case Word(text):
                return self._word(text, starts, slot)
            case Series(parts):
                for part in parts:
                    starts = self.build(part, starts, slot)
                return starts
            case Choice(options):
                return frozenset().union(*(self.build(option, starts, slot) for option in options))
            case AnyOrder(parts):
                return self._any_order(parts, starts, slot)
            case Slot(name, values):
                return frozenset().union(*(self._value(name, v.value, v.pattern, starts) for v in values))

    def _word(self, text: str, starts: Nodes, slot: int) -> Nodes:
        for label in encode(text):
            target = self.nodes
            self.nodes += 1
            self.arcs.extend((source, target, label, slot) for source in starts)
            starts = frozenset((target,))
        if len(self.arcs) > MAX_ARCS:
            raise GrammarError(f"grammar of over {MAX_ARCS} letters; name fewer alternatives, above all around &")
        return starts

    def _value(self, name: str, value: str | None, pattern: Pattern, starts: Nodes) -> Nodes:
        self.slots.append((name, value))
        return self.build(pattern, starts, len(self.slots) - 1)

    def _any_order(self, parts: tuple[Pattern, ...], starts: Nodes, slot: int) -> Nodes:
        after: dict[int, Nodes] = {0: starts}
        for said in range(1 << len(parts)):  # a bit for every part that was said
            for i, part in enumerate(parts):
                if not said & 1 << i:
                    reached = self.build(part, after[said], slot)
                    after[said | 1 << i] = after.get(said | 1 << i, frozenset()) | reached
        return after[(1 << len(parts)) - 1]


def build_graph(grammar: Grammar) -> Graph:
    """The graph of everything that ``grammar`` allows.

    Raises:
        GrammarError: it is too large, or an intent may be silence.
    """
    builder = _Builder()
    ends = {}
    for intent, pattern in grammar.intents.items():
        reached = builder.build(pattern, frozenset((0,)))
        if 0 in reached:
            raise GrammarError(f"grammar {grammar.name!r}: intent {intent!r} may be said by silence; require a word")
        ends[intent] = np.array(sorted(reached), np.int32)
    source, target, label, slot = np.array(builder.arcs, np.int32).T
    return Graph(grammar.name, source, target, label, slot, tuple(builder.slots), ends, builder.nodes)
