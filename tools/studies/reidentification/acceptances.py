"""Accepted matches of known with unknown speakers, and what is counted of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.plda import Floats

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class People:
    """Known and unknown speakers as numbers: equal numbers are the same person. Each is named once on either side."""

    known: Indices
    unknown: Indices

    @classmethod
    def named(cls, known: list[str], unknown: list[str]) -> People:
        """From names; an unknown who is not known gets a number of their own."""
        codes = {name: i for i, name in enumerate(known)}
        return cls(np.arange(len(known)), np.array([codes.setdefault(name, len(codes)) for name in unknown], np.int64))

    @property
    def comparisons(self) -> int:
        return len(self.known) * len(self.unknown)

    @property
    def overlapping(self) -> NDArray[np.bool_]:
        """Whether each unknown speaker is known, (unknown,)."""
        return np.isin(self.unknown, self.known)


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The cells (known row, unknown column) whose score reaches ``threshold``, best first."""

    rows: Indices
    columns: Indices
    scores: Floats
    threshold: float
    people: People

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def genuine(self) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.people.known[self.rows] == self.people.unknown[self.columns]
        return same

    def counts(self) -> Counts:
        """Of the cells above the threshold."""
        return self._counts(self.scores > self.threshold)

    def rank1(self) -> Counts:
        """With only the best known speaker of each unknown one, where it lies above the threshold."""
        first = np.zeros(len(self), bool)
        first[np.unique(self.columns, return_index=True)[1]] = True
        return self._counts(first & (self.scores > self.threshold))

    def best(self, number: int) -> Counts:
        """With only the ``number`` best cells of all that reach the threshold: an adversary who knows the overlap."""
        return self._counts(np.arange(len(self)) < number)

    def false_by_overlap(self) -> tuple[int, int]:
        """False acceptances of unknown speakers who are (not known, known)."""
        false = ~self.genuine & (self.scores > self.threshold)
        known = self.people.overlapping[self.columns]
        return int((false & ~known).sum()), int((false & known).sum())

    def _counts(self, chosen: NDArray[np.bool_]) -> Counts:
        true = int((chosen & self.genuine).sum())
        false = int(chosen.sum()) - true
        targets = int(self.people.overlapping.sum())
        return Counts(true, targets - true, false, self.people.comparisons - targets - false)


def accept(scores: Floats, threshold: float, people: People) -> Acceptances:
    """The accepted cells of a matrix of final scores, (known, unknown)."""
    rows, columns = np.nonzero(scores >= threshold)
    return ordered(rows, columns, scores[rows, columns], threshold, people)


def ordered(rows: Indices, columns: Indices, scores: Floats, threshold: float, people: People) -> Acceptances:
    """Acceptances of cells in any order; equal scores keep the order of rows, then columns."""
    best = np.lexsort((columns, rows, -scores))
    return Acceptances(rows[best], columns[best], scores[best], threshold, people)
