"""Detectors' scores relative to the owner.

Genuine speech of one person, through that person's microphone, scores higher than another's, and so do attacks that
are made of it. What an enrolment scores tells how much of that is the person's own; a share of it is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from voiceid.errors import ModelError
from voiceid.models.card import Card, Threshold
from voiceid.tables import Between, from_table

ENTRY = "owner"
"""Where a card's parameters hold :class:`OwnerParameters`."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one detector scored of an enrolment: the ``mean`` raw score of its ``utterances``.

    It holds for that very model, ``model_sha256`` in hexadecimal; another one's scores are not comparable.
    """

    model_sha256: str
    mean: float
    utterances: int

    @classmethod
    def of(cls, card: Card, mean: float, utterances: int) -> Baseline:
        """By the model of ``card``; the mean in millionths, as it is stored."""
        return cls(card.sha256, round(mean, 6), utterances)


@dataclass(frozen=True, slots=True)
class OwnerParameters:
    """The ``owner`` entry of a detector's card; all but ``share`` and ``scatter`` are log-likelihood ratios.

    ``share`` of what an enrolment scores above the ``usual``, or below, is the owner's own. An enrolment counts as
    ``least`` where it scores less, as ``most`` where more. Of few utterances less is known: n of them count
    n / (n + ``scatter``), the variance within a speaker to that between speakers. ``thresholds`` are for relative
    scores, by operating point.
    """

    share: Annotated[float, Between(0, 1)]
    usual: float
    least: float
    most: float
    scatter: Annotated[float, Between(0, 1000)]
    thresholds: dict[str, Threshold]

    def shift(self, enrolled: float, utterances: int) -> float:
        """What is taken off the scores of an owner whose enrolment, of so many ``utterances``, scores ``enrolled``."""
        found = min(max(enrolled, self.least), self.most)
        return self.share * utterances / (utterances + self.scatter) * (found - self.usual)


def owner_parameters(card: Card) -> OwnerParameters | None:
    """The owner entry of ``card``, None where it has none: then its scores are the same for everybody.

    Raises:
        ModelError: malformed, or without a threshold for one of the card's operating points.
    """
    if ENTRY not in card.parameters:
        return None
    where = f"card {card.name!r}: {ENTRY}"
    found = from_table(OwnerParameters, card.parameters[ENTRY], where=where, error=ModelError)
    if not found.least <= found.usual <= found.most or not math.isfinite(found.least + found.most):
        raise ModelError(f"{where}: the usual {found.usual} lies outside of {found.least} to {found.most}")
    if missing := sorted(set(card.thresholds) - set(found.thresholds)):
        raise ModelError(f"{where} has no threshold for {missing[0]!r}; run 'python -m tools.train.owner' again")
    return found


def shift_of(card: Card, parameters: OwnerParameters | None, baselines: Iterable[Baseline]) -> float | None:
    """What is taken off the scores of ``card`` for the owner of ``baselines``.

    None where they stay as they are, for want of ``parameters`` or of a baseline by that very model.
    """
    baseline = next((known for known in baselines if known.model_sha256 == card.sha256), None)
    if parameters is None or baseline is None or card.calibration is None:
        return None
    return parameters.shift(card.calibration(baseline.mean), baseline.utterances)


def first_of_each(baselines: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """The first of ``baselines`` by each model, sorted by model."""
    found: dict[str, Baseline] = {}
    for baseline in baselines:
        found.setdefault(baseline.model_sha256, baseline)
    return tuple(found[model] for model in sorted(found))
