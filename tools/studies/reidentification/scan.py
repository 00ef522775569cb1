"""Score known against unknown speakers without ever holding all scores.

A first pass summarises each unknown speaker's column over slices of the known ones. Open-set scores grow with the
score within a column, so only columns whose best score reaches a threshold can hold an acceptance; a second pass scores
those again, and looks closer only at scores that can reach it. With scores of 32 bits, columns with a score too near a
threshold to tell are scored once more with 64. The result is exact, and memory is bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
TALL = 8
"""Known over unknown speakers in a block."""
SLICE = 8
"""Blocks of known speakers in a slice: all unknown ones are projected again for each slice."""
TOLERANCE = 1e-3
"""Scores of 32 bits are taken to be this near to those of 64, and must be within a tenth of it where both are known."""
ROUNDING = 1e-6
"""The same of scores of 64 bits, made by one product of matrices or another."""
MOST_CELLS = 20_000_000
"""Acceptances that are kept; more say that the threshold accepts nearly everybody."""
Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to items and yields the results in any order."""
Cells = tuple[Indices, Indices, Floats]
"""Known rows, unknown columns and open-set scores of some cells."""


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
class Only:
    """Some ``rows`` of a source."""

    source: Source
    chosen: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.chosen)

    def read(self, rows: slice | NDArray[np.intp]) -> NDArray[np.floating]:
        return self.source.read(self.chosen[rows])


@dataclass(frozen=True, slots=True)
class Trials:
    """Who is scored, by what, and how: blocks of ``height`` known and ``width`` unknown speakers, in scores of
    ``precision``."""

    plda: Plda
    known: Source
    unknown: Source
    p_known: float
    block: int = BLOCK
    precision: type[np.floating] = np.float64

    @property
    def height(self) -> int:
        return min(len(self.known), max(1, int((TALL * self.block) ** 0.5)))

    @property
    def width(self) -> int:
        return max(1, self.block // self.height)

    @property
    def tolerance(self) -> float:
        """How far a score may be from that of 64 bits."""
        return 0.0 if self.precision is np.float64 else TOLERANCE

    def slices(self) -> list[slice]:
        return list(blocks(len(self.known), SLICE * self.height))

    def portion(self, part: slice) -> tuple[Projected, Projected]:
        """The known speakers of ``part``, and all unknown ones, projected."""
        return self.plda.project(self.known.read(part)), self.plda.project(self.unknown.read(slice(None)))


@dataclass(frozen=True, slots=True)
class Summarise:
    """First pass over one slice of the known speakers."""

    trials: Trials

    def __call__(self, part: slice) -> Columns:
        known, unknown = (side.astype(self.trials.precision) for side in self.trials.portion(part))
        found = [self._block(known, unknown[inside], part.start) for inside in blocks(len(unknown), self.trials.width)]
        best, row, rest = (np.concatenate([getattr(part, n) for part in found]) for n in ("best", "row", "rest"))
        return Columns(best, row, rest, len(known))

    def _block(self, known: Projected, unknown: Projected, first: int) -> Columns:
        parts = blocks(len(known), self.trials.height)
        return reduce(Columns.merge, (summarise(known[p].scores(unknown), first + p.start, spoil=True) for p in parts))


@dataclass(frozen=True, slots=True)
class Accept:
    """Second pass over one slice of the known speakers: cells of ``chosen`` columns that may reach ``threshold``."""

    trials: Trials
    chosen: NDArray[np.intp]
    columns: Columns
    threshold: float

    def __call__(self, part: slice) -> Cells:
        known = self.trials.plda.project(self.trials.known.read(part))
        unknown = self.trials.plda.project(self.trials.unknown.read(self.chosen))
        rows, columns = self._candidates(known, unknown)
        raw = known[rows].pairs(unknown[columns])
        scores = self.columns.normalise_cells(raw, rows + part.start, columns, self.trials.p_known)
        reached = scores >= self.threshold - self.trials.tolerance
        return rows[reached] + part.start, self.chosen[columns[reached]], scores[reached]

    def _candidates(self, known: Projected, unknown: Projected) -> tuple[Indices, Indices]:
        """Cells whose score is not too low to reach the threshold."""
        least = self.columns.least(self.threshold, self.trials.p_known) - max(self.trials.tolerance, ROUNDING)
        rough_known, rough_unknown = (side.astype(self.trials.precision) for side in (known, unknown))
        found = [_none()[:2]]
        for inside in blocks(len(unknown), self.trials.width):
            for part in blocks(len(known), self.trials.height):
                scores = rough_known[part].scores(rough_unknown[inside])
                rows, columns = np.nonzero(scores >= least[inside].astype(scores.dtype))
                self._check(scores[rows, columns], known[rows + part.start].pairs(unknown[columns + inside.start]))
                found.append((rows + part.start, columns + inside.start))
        rows, columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, columns

    def _check(self, rough: NDArray[np.floating], exact: NDArray[np.floating]) -> None:
        off = float(np.abs(rough - exact).max(initial=0.0))
        if off > max(self.trials.tolerance / 10, ROUNDING):
            raise StudyError(
                f"scores of {rough.dtype} are off by {off:.1e}: they are too large for that precision; use 64 bits"
            )


def scan(trials: Trials, thresholds: Sequence[float], people: People, apply: Apply = map) -> list[Acceptances]:
    """The acceptances at each threshold.

    Raises:
        StudyError: numbers of people that do not fit, scores that are not numbers, too large for the precision, or too
            many acceptances.
    """
    if (len(trials.known), len(trials.unknown)) != (len(people.known), len(people.unknown)):
        raise StudyError(
            f"{len(trials.known)} known and {len(trials.unknown)} unknown embeddings "
            f"for {len(people.known)} and {len(people.unknown)} people"
        )
    rows, columns, scores = _cells(trials, min(thresholds), apply)
    near = np.zeros(len(scores), bool)
    for threshold in thresholds:
        near |= np.abs(scores - threshold) <= trials.tolerance
    if trials.tolerance and near.any():
        doubtful = np.unique(columns[near])
        certain = ~np.isin(columns, doubtful)
        closer = replace(trials, unknown=Only(trials.unknown, doubtful), precision=np.float64)
        again_rows, again_columns, again_scores = _cells(closer, min(thresholds), apply)
        rows = np.concatenate([rows[certain], again_rows])
        columns = np.concatenate([columns[certain], doubtful[again_columns]])
        scores = np.concatenate([scores[certain], again_scores])
    reached = [scores >= threshold for threshold in thresholds]
    return [ordered(rows[r], columns[r], scores[r], t, people) for r, t in zip(reached, thresholds, strict=True)]


def _cells(trials: Trials, threshold: float, apply: Apply) -> Cells:
    """All cells that reach ``threshold``, or may, for their precision."""
    columns = reduce(Columns.merge, apply(Summarise(trials), trials.slices()))
    if np.isnan(columns.best).any():
        raise StudyError(f"{int(np.isnan(columns.best).sum())} unknown speakers have scores that are not numbers")
    best = columns.best_normalised(trials.p_known)
    chosen = np.flatnonzero(best >= threshold - max(trials.tolerance, ROUNDING))
    if not len(chosen):
        return _none()
    return _collect(apply(Accept(trials, chosen, columns[chosen], threshold), trials.slices()))


def score_all(known: Projected, unknown: Projected, p_known: float) -> Floats:
    """All open-set scores as one matrix, (known, unknown)."""
    scores = known.scores(unknown)
    return summarise(scores).normalise(scores, p_known)


def blocks(length: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` that cover ``length``."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _none() -> Cells:
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)


def _collect(found: Iterator[Cells]) -> Cells:
    parts = [_none()]
    total = 0
    for cells in found:
        total += len(cells[0])
        if total > MOST_CELLS:
            raise StudyError(f"more than {MOST_CELLS:,} acceptances; choose a higher threshold")
        parts.append(cells)
    rows, columns, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, columns, scores
