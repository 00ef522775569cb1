"""The command of a grammar that best explains what the recogniser heard: Viterbi in a CTC trellis over the graph.

States are the blank at every node and the letter of every arc (Graves et al., "Connectionist temporal classification",
2006, with a graph in place of one text). All of them take one step a frame, at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from voiceid.understanding.alphabet import BLANK, LETTERS
from voiceid.understanding.grammar import Grammar
from voiceid.understanding.graph import build_graph

Floats = NDArray[np.float32]
IMPOSSIBLE = np.float32(-1e30)


@dataclass(frozen=True, slots=True)
class Path:
    """A command and its log-likelihood; ``text`` are its words, ``slots`` what they mean."""

    intent: str
    slots: dict[str, str]
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Match:
    """The best command, the best score of any other intent (-inf: there is none), and of no grammar at all."""

    best: Path
    runner_up: float
    free: float
    frames: int

    @property
    def fit(self) -> float:
        """Log-likelihood a frame that the grammar costs, at most 0: how well it explains what was said."""
        return min(0.0, self.best.score - self.free) / self.frames


class Decoder:
    """Decodes by one grammar."""

    def __init__(self, grammar: Grammar) -> None:
        """Compile ``grammar``.

        Raises:
            GrammarError: it is too large, or an intent may be silence.
        """
        self.graph = graph = build_graph(grammar)
        arcs, nodes = len(graph.label), graph.nodes
        self._label = np.concatenate((graph.label, np.full(nodes, BLANK, np.int32)))
        by_target = np.argsort(graph.target, kind="stable")
        count = np.bincount(graph.target, minlength=nodes)
        first = np.concatenate(([0], np.cumsum(count)))
        entering = [by_target[first[node] : first[node + 1]] for node in range(nodes)]
        before: list[NDArray[np.int64]] = []
        for arc in range(arcs):
            node = graph.source[arc]
            earlier = entering[node]
            others = earlier[graph.label[earlier] != graph.label[arc]]
            before.append(np.concatenate(([arc, arcs + node], others)))
        before += [np.concatenate(([arcs + node], entering[node])) for node in range(nodes)]
        self._before = np.concatenate(before)
        sizes = np.array([len(states) for states in before])
        self._first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self._of = np.repeat(np.arange(len(sizes)), sizes)
        self._start = np.concatenate((np.flatnonzero(graph.source == 0), [arcs]))
        self._complete = {
            intent: np.concatenate((arcs + ends, *(entering[node] for node in ends)))
            for intent, ends in graph.ends.items()
        }

    def decode(self, posteriors: Floats) -> Match | None:
        """The best command in ``posteriors``, float32 (T, labels) of log-probabilities; None: too short for any."""
        score = np.full(len(self._label), IMPOSSIBLE, np.float32)
        score[self._start] = posteriors[0, self._label[self._start]]
        came = np.zeros((len(posteriors), len(self._label)), np.int32)
        for t in range(1, len(posteriors)):
            candidates = score[self._before]
            best = np.maximum.reduceat(candidates, self._first)
            chosen = np.flatnonzero(candidates == best[self._of])
            came[t, self._of[chosen]] = self._before[chosen]
            score = np.maximum(best + posteriors[t, self._label], IMPOSSIBLE)
        ends = {intent: states[np.argmax(score[states])] for intent, states in self._complete.items()}
        order = sorted(ends, key=lambda intent: -score[ends[intent]])
        if score[ends[order[0]]] <= IMPOSSIBLE / 2:
            return None
        path = self._path(order[0], int(ends[order[0]]), came, score)
        runner_up = float(score[ends[order[1]]]) if len(order) > 1 else -np.inf
        return Match(path, runner_up, float(posteriors.max(axis=1).sum()), len(posteriors))

    def _path(self, intent: str, state: int, came: NDArray[np.int32], score: Floats) -> Path:
        graph, states = self.graph, [state]
        for t in range(len(came) - 1, 0, -1):
            states.append(int(came[t, states[-1]]))
        arcs = [arc for arc, _ in groupby(reversed(states)) if arc < len(graph.label)]
        letters = [(LETTERS[graph.label[arc] - 1], int(graph.slot[arc])) for arc in arcs]
        slots = {}
        for number, part in groupby(letters, key=lambda letter: letter[1]):
            said = "".join(letter for letter, _ in part).strip()
            if number >= 0:
                name, value = graph.slots[number]
                slots[name] = said if value is None else value
        return Path(intent, slots, "".join(letter for letter, _ in letters).strip(), float(score[state]))
