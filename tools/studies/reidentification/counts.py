"""Counts of acceptances and rejections, and the measures made of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tools.studies.errors import StudyError


@dataclass(frozen=True, slots=True)
class Counts:
    """Comparisons of known with unknown speakers: true and false acceptances and rejections.

    A measure whose denominator is zero is NaN. Counts are Python integers, so that no product overflows.
    """

    true_acceptances: int
    false_rejections: int
    false_acceptances: int
    true_rejections: int

    @classmethod
    def parse(cls, text: str) -> Counts:
        """The four numbers of a printed matrix [[TA FR] [FA TR]], as the study's tables have it.

        Raises:
            StudyError: not four whole numbers.
        """
        numbers = re.findall(r"\d+", text)
        if len(numbers) != 4 or re.search(r"[-.\de]*[.-]\d", text):
            raise StudyError(f"confusion matrix {text!r}: expected four counts, [[TA FR] [FA TR]]")
        return cls(*map(int, numbers))

    @property
    def comparisons(self) -> int:
        return self.true_acceptances + self.false_rejections + self.false_acceptances + self.true_rejections

    @property
    def precision(self) -> float:
        return _ratio(self.true_acceptances, self.true_acceptances + self.false_acceptances)

    @property
    def recall(self) -> float:
        return _ratio(self.true_acceptances, self.true_acceptances + self.false_rejections)

    @property
    def accuracy(self) -> float:
        return _ratio(self.true_acceptances + self.true_rejections, self.comparisons)

    @property
    def false_acceptance_rate(self) -> float:
        return _ratio(self.false_acceptances, self.false_acceptances + self.true_rejections)

    @property
    def correlation(self) -> float:
        """Matthews correlation coefficient."""
        ta, fr, fa, tr = self.true_acceptances, self.false_rejections, self.false_acceptances, self.true_rejections
        product = (ta + fa) * (ta + fr) * (tr + fa) * (tr + fr)
        return (ta * tr - fa * fr) / math.sqrt(product) if product else math.nan

    def f_score(self, beta: float = 1.0) -> float:
        precision, recall = self.precision, self.recall
        if math.isnan(precision) or math.isnan(recall) or precision + recall == 0:
            return math.nan
        return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)

    def matrix(self) -> list[list[int]]:
        """[[TA, FR], [FA, TR]]."""
        return [
            [self.true_acceptances, self.false_rejections],
            [self.false_acceptances, self.true_rejections],
        ]

    def measures(self, beta: float = 1.0) -> dict[str, float | list[list[int]]]:
        """All measures under the names of the study's result files."""
        return {
            "precision": self.precision,
            "confusion_matrix": self.matrix(),
            "recall": self.recall,
            "mcc": self.correlation,
            "fscore": self.f_score(beta),
            "accuracy": self.accuracy,
            "fp_rate": self.false_acceptance_rate,
        }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
