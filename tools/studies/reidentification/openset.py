"""Scores of open-set identification: each score against the mean likelihood ratio of all other known speakers.

s'[i, j] = s[i, j] - log(p_known mean_{k != i} exp(s[k, j]) + 1 - p_known) (Lee et al., Interspeech 2013). Within one
unknown speaker j this grows with s, so the best known speaker and the sum over the others settle most questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.studies.errors import StudyError
from tools.studies.reidentification.plda import Floats


@dataclass(frozen=True, slots=True)
class Columns:
    """For each unknown speaker: the ``best`` score, its ``row`` among the known, ``rest`` = log sum exp of all other
    scores (-inf for one known speaker), and the number ``known`` of them. Arrays are (unknown,)."""

    best: Floats
    row: NDArray[np.int64]
    rest: Floats
    known: int

    def merge(self, other: Columns) -> Columns:
        """The summary over the known speakers of both."""
        ahead = other.best > self.best
        loser = np.where(ahead, self.best, other.best)
        rest = np.logaddexp(np.logaddexp(self.rest, other.rest), loser)
        return Columns(
            np.where(ahead, other.best, self.best),
            np.where(ahead, other.row, self.row),
            rest,
            self.known + other.known,
        )

    def __getitem__(self, columns: NDArray[np.intp]) -> Columns:
        return Columns(self.best[columns], self.row[columns], self.rest[columns], self.known)

    def normalise(self, scores: Floats, p_known: float, first_row: int = 0) -> Floats:
        """Open-set scores of ``scores`` (any rows from ``first_row`` on, unknown), whose columns this summarises.

        Raises:
            StudyError: ``p_known`` outside 0 to 1, or a single known speaker.
        """
        return self._normalised(scores, first_row + np.arange(len(scores))[:, None], p_known)

    def normalise_cells(
        self, scores: Floats, rows: NDArray[np.intp], columns: NDArray[np.intp], p_known: float
    ) -> Floats:
        """Open-set scores of single cells: ``scores``, ``rows`` of the known and ``columns`` are (cells,)."""
        return self[columns]._normalised(scores, rows, p_known)

    def least(self, threshold: float, p_known: float) -> Floats:
        """Scores below this, (unknown,), stay below ``threshold`` as open-set scores: nobody's others sum to less than
        those of the best."""
        if p_known == 0:
            return np.full_like(self.best, threshold)
        least: Floats = threshold + self._against(self.rest, p_known)
        return least

    def _normalised(self, scores: Floats, rows: NDArray[np.intp], p_known: float) -> Floats:
        if not 0 <= p_known <= 1:
            raise StudyError(f"p_known {p_known}; a probability lies between 0 and 1")
        if p_known == 0:
            return scores
        if self.known < 2:
            raise StudyError("one known speaker only: open-set scores need two (or p_known 0)")
        total = np.logaddexp(self.best, self.rest)
        with np.errstate(divide="ignore"):  # of the best score, which the next line replaces
            others = total + np.log1p(-np.exp(np.minimum(scores - total, 0)))
        normalised: Floats = scores - self._against(np.where(rows == self.row, self.rest, others), p_known)
        return normalised

    def _against(self, others: Floats, p_known: float) -> Floats:
        """What a score is compared with, of the log-sum of ``others``."""
        mean: Floats = others - np.log(self.known - 1)
        return mean if p_known == 1 else np.logaddexp(np.log(p_known) + mean, np.log1p(-p_known))

    def best_normalised(self, p_known: float) -> Floats:
        """The open-set score of each column's best, (unknown,)."""
        top = Columns(self.best, np.zeros_like(self.row), self.rest, self.known)
        only: Floats = top.normalise(self.best[None], p_known)[0]
        return only


def summarise(scores: NDArray[np.floating], first_row: int = 0, *, spoil: bool = False) -> Columns:
    """Summary of ``scores`` (known, unknown), whose first row is known speaker ``first_row``.

    Sums are of as many bits as the scores, the summary is of 64. With ``spoil`` the scores are overwritten.
    """
    row = scores.argmax(axis=0)
    cells = (row, np.arange(scores.shape[1]))
    best = scores[cells].astype(np.float64)
    others = scores if spoil else scores.copy()
    others[cells] = -np.inf
    runner_up = others.max(axis=0)
    rest = runner_up.astype(np.float64)
    if len(scores) > 1:
        others -= runner_up
        rest += np.log(np.exp(others, out=others).sum(axis=0))
    return Columns(best, row + first_row, rest, len(scores))
