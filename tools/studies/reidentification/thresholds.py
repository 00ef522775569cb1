"""Thresholds of a trained PLDA: at the equal error rate or the least detection cost, averaged over random subsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tools.studies.errors import StudyError
from tools.studies.reidentification.openset import summarise
from tools.studies.reidentification.plda import Floats, Plda


@dataclass(frozen=True, slots=True)
class Costs:
    """Weights of the detection cost c_miss P_miss p_target + c_fa P_fa (1 - p_target); the defaults are strict."""

    c_fa: float = 10.0
    c_miss: float = 0.1
    p_target: float = 0.001


STRICT = Costs()
RELAXED = Costs(c_fa=1.0, c_miss=1.0, p_target=0.1)


@dataclass(frozen=True, slots=True)
class ThresholdOptions:
    """How thresholds are found: ``runs`` times, on ``subset`` enrolled and as many tested training speakers."""

    runs: int = 500
    subset: int = 100
    costs: Costs = STRICT
    p_known: float = 1.0


@dataclass(frozen=True, slots=True)
class Averaged:
    """One kind of threshold over the usable runs: ``values`` is the equal error rate or the cost of each run."""

    thresholds: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def threshold(self) -> float:
        return float(np.mean(self.thresholds))

    @property
    def value(self) -> float:
        return float(np.mean(self.values))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Both thresholds; ``skipped`` runs drew subsets without a speaker in common and gave none."""

    eer: Averaged
    mindcf: Averaged
    skipped: int


def equal_error(positives: ArrayLike, negatives: ArrayLike) -> tuple[float, float]:
    """(EER, threshold), where miss and false-alarm rates of ``score > threshold`` lie closest; the lowest such score.

    Candidates are the distinct scores and the middles between them, as in SpeechBrain's ``EER``.
    """
    candidates, missed, accepted, (genuine, false) = _errors(positives, negatives)
    best = int(np.argmin(np.abs(accepted * genuine - missed * false)))
    return float(missed[best] / genuine + accepted[best] / false) / 2, float(candidates[best])


def least_cost(positives: ArrayLike, negatives: ArrayLike, costs: Costs = STRICT) -> tuple[float, float]:
    """(minDCF, threshold) of the detection cost, not normalised, as in SpeechBrain's ``minDCF``."""
    candidates, missed, accepted, (genuine, false) = _errors(positives, negatives)
    cost = costs.c_miss * costs.p_target * missed / genuine + costs.c_fa * (1 - costs.p_target) * accepted / false
    best = int(np.argmin(cost))
    return float(cost[best]), float(candidates[best])


def average_thresholds(
    plda: Plda,
    embeddings: NDArray[np.floating],
    speakers: Sequence[str],
    options: ThresholdOptions,
    rng: np.random.Generator,
) -> Thresholds:
    """Thresholds on the training data, averaged over runs.

    Each run draws ``subset`` speakers to enrol and, independently, ``subset`` to test, with one random recording each;
    where a speaker is drawn for both, the recordings differ (the study could try a recording against itself). A
    speaker with one recording is drawn for one side only.

    Raises:
        StudyError: more speakers asked for than there are, or no run with a genuine and a false trial.
    """
    names, index = np.unique(np.asarray(speakers, np.str_), return_inverse=True)
    if not 2 <= options.subset <= len(names):
        raise StudyError(
            f"a subset of {options.subset} speakers for the threshold; there are {len(names)} training speakers, "
            f"choose 2 to {len(names)} (--subset)"
        )
    recordings = [np.flatnonzero(index == i) for i in range(len(names))]
    latent = plda.project(embeddings)
    found: list[tuple[float, float, float, float]] = []
    for _ in range(options.runs):
        enrolled, tested = (rng.choice(len(names), options.subset, replace=False) for _ in range(2))
        pairs = {int(i): rng.permutation(recordings[i])[:2] for i in np.union1d(enrolled, tested)}
        tested = np.array([i for i in tested if len(pairs[i]) > 1 or i not in enrolled], np.intp)
        same = enrolled[:, None] == tested
        if not same.any() or same.all():
            continue
        left, right = np.array([pairs[i][0] for i in enrolled]), np.array([pairs[i][-1] for i in tested])
        scores = latent[left].scores(latent[right])
        scores = summarise(scores).normalise(scores, options.p_known)
        rate, at_rate = equal_error(scores[same], scores[~same])
        cost, at_cost = least_cost(scores[same], scores[~same], options.costs)
        found.append((at_rate, rate, at_cost, cost))
    if not found:
        raise StudyError(
            f"none of {options.runs} threshold runs drew one speaker for both sides; "
            "use larger subsets (--subset), more runs (--run_threshold), or a manual threshold (--th)"
        )
    at_rates, rates, at_costs, costs = zip(*found, strict=True)
    return Thresholds(Averaged(at_rates, rates), Averaged(at_costs, costs), options.runs - len(found))


def _errors(
    positives: ArrayLike, negatives: ArrayLike
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], tuple[int, int]]:
    """Candidate thresholds, genuine scores missed and false ones accepted at each, and how many there are of both."""
    pos, neg = (np.sort(np.asarray(scores, np.float64).ravel()) for scores in (positives, negatives))
    for scores, kind in ((pos, "genuine"), (neg, "false")):
        if scores.size == 0 or np.isnan(scores).any():
            raise StudyError(f"a threshold needs {kind} scores that are numbers; there are {scores.size}")
    distinct = np.unique(np.concatenate((pos, neg)))
    candidates = np.sort(np.concatenate((distinct, (distinct[:-1] + distinct[1:]) / 2)))
    missed = np.searchsorted(pos, candidates, side="right")
    accepted = neg.size - np.searchsorted(neg, candidates, side="right")
    return candidates, missed, accepted, (pos.size, neg.size)
