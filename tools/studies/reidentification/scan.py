"""Score known against unknown speakers without ever holding all scores.

A first pass summarises each unknown speaker's column over slices of the known ones. Open-set scores grow with the
score within a column, so only columns whose best score reaches a threshold can hold an acceptance; a second pass scores
those few again. The result is exact, and memory is bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tools.studies.errors import StudyError
from tools.studies.reidentification.acceptances import Acceptances, Indices, People, ordered
from tools.studies.reidentification.openset import Columns, summarise
from tools.studies.reidentification.plda import Floats, Plda, Projected

BLOCK = 1 << 19
"""Scores held at once, 4 MiB of them: what a processor's cache holds is scored several times as fast."""
TALL = 128
"""Known over unknown speakers in a block: all unknown ones are projected again for each slice of the known."""
MOST_CELLS = 20_000_000
"""Acceptances that are kept; more say that the threshold accepts nearly everybody."""
Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to items and yields the results in any order."""


class Source(Protocol):
    """Embeddings of speakers, read in parts."""

    def __len__(self) -> int: ...

    def read(self, rows: slice | NDArray[np.intp]) -> NDArray[np.floating]:
        """Embeddings of some speakers, (rows, d)."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """Embeddings in memory, (n, d)."""

    embeddings: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.embeddings)

    def read(self, rows: slice | NDArray[np.intp]) -> NDArray[np.floating]:
        return self.embeddings[rows]


@dataclass(frozen=True, slots=True)
class Trials:
    """Who is scored, by what, in which portions: ``rows`` known and ``width`` unknown speakers at a time."""

    plda: Plda
    known: Source
    unknown: Source
    p_known: float
    block: int = BLOCK

    @property
    def rows(self) -> int:
        return min(len(self.known), max(1, int((TALL * self.block) ** 0.5)))

    @property
    def width(self) -> int:
        return max(1, self.block // self.rows)

    def slices(self) -> list[slice]:
        return list(blocks(len(self.known), self.rows))

    def portion(self, part: slice) -> tuple[Projected, Projected]:
        """The known speakers of ``part``, and all unknown ones, projected."""
        return self.plda.project(self.known.read(part)), self.plda.project(self.unknown.read(slice(None)))


@dataclass(frozen=True, slots=True)
class Summarise:
    """First pass over one slice of the known speakers."""

    trials: Trials

    def __call__(self, part: slice) -> Columns:
        known, unknown = self.trials.portion(part)
        found = [
            summarise(known.scores(unknown[columns]), part.start) for columns in blocks(len(unknown), self.trials.width)
        ]
        best, row, rest = (np.concatenate([getattr(part, n) for part in found]) for n in ("best", "row", "rest"))
        return Columns(best, row, rest, len(known))


@dataclass(frozen=True, slots=True)
class Accept:
    """Second pass over one slice of the known speakers: cells of ``chosen`` columns that reach ``threshold``."""

    trials: Trials
    chosen: NDArray[np.intp]
    columns: Columns
    threshold: float

    def __call__(self, part: slice) -> tuple[Indices, Indices, Floats]:
        known = self.trials.plda.project(self.trials.known.read(part))
        unknown = self.trials.plda.project(self.trials.unknown.read(self.chosen))
        found = [self._cells(known, unknown, part.start, inside) for inside in blocks(len(unknown), self.trials.width)]
        rows, columns, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, columns, scores

    def _cells(
        self, known: Projected, unknown: Projected, first: int, inside: slice
    ) -> tuple[Indices, Indices, Floats]:
        summary = self.columns[np.arange(inside.start, inside.stop)]
        scores = summary.normalise(known.scores(unknown[inside]), self.trials.p_known, first)
        rows, columns = np.nonzero(scores >= self.threshold)
        return rows + first, self.chosen[columns + inside.start], scores[rows, columns]


def scan(trials: Trials, thresholds: Sequence[float], people: People, apply: Apply = map) -> list[Acceptances]:
    """The acceptances at each threshold.

    Raises:
        StudyError: numbers of people that do not fit, scores that are not numbers, or too many acceptances.
    """
    if (len(trials.known), len(trials.unknown)) != (len(people.known), len(people.unknown)):
        raise StudyError(
            f"{len(trials.known)} known and {len(trials.unknown)} unknown embeddings "
            f"for {len(people.known)} and {len(people.unknown)} people"
        )
    columns = reduce(Columns.merge, apply(Summarise(trials), trials.slices()))
    if np.isnan(columns.best).any():
        raise StudyError(f"{int(np.isnan(columns.best).sum())} unknown speakers have scores that are not numbers")
    best = columns.best_normalised(trials.p_known)
    lowest = min(thresholds)
    chosen = np.flatnonzero(best >= lowest - 1e-6)
    found = apply(Accept(trials, chosen, columns[chosen], lowest), trials.slices()) if len(chosen) else iter(())
    rows, places, scores = _collect(found)
    reached = [scores >= threshold for threshold in thresholds]
    return [ordered(rows[r], places[r], scores[r], t, people) for r, t in zip(reached, thresholds, strict=True)]


def score_all(known: Projected, unknown: Projected, p_known: float) -> Floats:
    """All open-set scores as one matrix, (known, unknown)."""
    scores = known.scores(unknown)
    return summarise(scores).normalise(scores, p_known)


def blocks(length: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` that cover ``length``."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _collect(found: Iterator[tuple[Indices, Indices, Floats]]) -> tuple[Indices, Indices, Floats]:
    parts: list[tuple[Indices, Indices, Floats]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    total = 0
    for cells in found:
        total += len(cells[0])
        if total > MOST_CELLS:
            raise StudyError(f"more than {MOST_CELLS:,} acceptances; choose a higher threshold")
        parts.append(cells)
    rows, columns, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, columns, scores
