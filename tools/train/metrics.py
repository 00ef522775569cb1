"""Detection metrics: error rates, detection costs, calibration and intervals.

Everywhere a higher score speaks for the positive class (target speaker, bona fide, live), and a score passes a
threshold when ``score >= threshold``. Scores are 1-D arrays; rates are fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Operating:
    """The ROC as a step function: ``miss[i]`` and ``false_alarm[i]`` are the error rates at ``thresholds[i]``.

    Thresholds are every distinct score, ascending, then +infinity; all arrays have shape (k,).
    """

    thresholds: Floats
    miss: Floats
    false_alarm: Floats


@dataclass(frozen=True, slots=True)
class ADcfCosts:
    """Priors and costs of the architecture-agnostic detection cost; the defaults are ASVspoof 5's."""

    target: float = 0.90
    nontarget: float = 0.05
    spoof: float = 0.05
    c_miss: float = 1.0
    c_nontarget: float = 10.0
    c_spoof: float = 20.0


def _scores(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0:
        raise ValueError(f"no {name} scores: a rate needs at least one trial")
    if np.isnan(array).any():
        raise ValueError(f"{int(np.isnan(array).sum())} of {array.size} {name} scores are NaN")
    return array


def operating_curve(positives: ArrayLike, negatives: ArrayLike) -> Operating:
    """Miss and false-alarm rates at every distinct threshold.

    Raises:
        ValueError: a class without trials, or NaN scores.
    """
    pos, neg = np.sort(_scores(positives, "positive")), np.sort(_scores(negatives, "negative"))
    thresholds = np.append(np.unique(np.concatenate((pos, neg))), np.inf)
    miss = np.searchsorted(pos, thresholds, side="left") / pos.size
    false_alarm = 1 - np.searchsorted(neg, thresholds, side="left") / neg.size
    return Operating(thresholds, miss, false_alarm)


def eer(positives: ArrayLike, negatives: ArrayLike) -> float:
    """Equal error rate: where the ROC, its vertices joined by straight lines, meets miss = false alarm."""
    curve = operating_curve(positives, negatives)
    difference = curve.miss - curve.false_alarm
    i = int(np.searchsorted(difference, 0.0))
    if difference[i] == 0 or i == 0:
        return float(curve.miss[i])
    part = -difference[i - 1] / (difference[i] - difference[i - 1])
    return float(curve.miss[i - 1] + part * (curve.miss[i] - curve.miss[i - 1]))


def eer_threshold(positives: ArrayLike, negatives: ArrayLike) -> float:
    """The distinct score at which miss and false-alarm rates lie closest together."""
    curve = operating_curve(positives, negatives)
    return float(curve.thresholds[int(np.argmin(np.abs(curve.miss - curve.false_alarm)[:-1]))])


def threshold_at_bpcer(bonafide: ArrayLike, bpcer: float) -> float:
    """The highest threshold that wrongly rejects at most the fraction ``bpcer`` of the bona fide scores."""
    ordered = np.sort(_scores(bonafide, "bona fide"))
    return float(ordered[min(int(np.floor(bpcer * ordered.size + 1e-9)), ordered.size - 1)])


def apcer_at_bpcer(bonafide: ArrayLike, spoof: ArrayLike, bpcer: float) -> float:
    """Share of attacks accepted at :func:`threshold_at_bpcer` (ISO/IEC 30107-3)."""
    return float(np.mean(_scores(spoof, "spoof") >= threshold_at_bpcer(bonafide, bpcer)))


def min_dcf(
    target: ArrayLike, nontarget: ArrayLike, *, prior: float = 0.01, c_miss: float = 1.0, c_fa: float = 1.0
) -> float:
    """NIST's minimum detection cost, normalised by the better of always accepting and always rejecting."""
    curve = operating_curve(target, nontarget)
    costs = c_miss * prior * curve.miss + c_fa * (1 - prior) * curve.false_alarm
    return float(costs.min() / min(c_miss * prior, c_fa * (1 - prior)))


def a_dcf(
    target: ArrayLike,
    nontarget: ArrayLike,
    spoof: ArrayLike,
    *,
    costs: ADcfCosts | None = None,
    threshold: float | None = None,
) -> float:
    """Architecture-agnostic detection cost of one fused score (Shim et al., Odyssey 2024), normalised.

    The minimum over thresholds, or the actual cost at ``threshold``.
    """
    costs = costs or ADcfCosts()
    tar, non, spf = (
        np.sort(_scores(s, n)) for s, n in ((target, "target"), (nontarget, "non-target"), (spoof, "spoof"))
    )
    thresholds = (
        np.append(np.unique(np.concatenate((tar, non, spf))), np.inf) if threshold is None else np.array([threshold])
    )
    below_tar, below_non, below_spf = (np.searchsorted(s, thresholds, side="left") / s.size for s in (tar, non, spf))
    cost = (
        costs.c_miss * costs.target * below_tar
        + costs.c_nontarget * costs.nontarget * (1 - below_non)
        + costs.c_spoof * costs.spoof * (1 - below_spf)
    )
    reject_all = costs.c_miss * costs.target
    accept_all = costs.c_nontarget * costs.nontarget + costs.c_spoof * costs.spoof
    return float(cost.min() / min(reject_all, accept_all))


def cllr(positive_llr: ArrayLike, negative_llr: ArrayLike) -> float:
    """Cost of natural-log likelihood ratios in bits (Brümmer and du Preez, 2006): 0 perfect, 1 uninformative."""
    pos, neg = _scores(positive_llr, "positive"), _scores(negative_llr, "negative")
    return float((np.logaddexp(0, -pos).mean() + np.logaddexp(0, neg).mean()) / (2 * np.log(2)))


def fit_calibration(positives: ArrayLike, negatives: ArrayLike, *, ridge: float = 1e-3) -> tuple[float, float]:
    """Fit ``llr = scale * raw + offset`` (natural log) by logistic regression with both classes weighing one half.

    ``ridge`` penalises the slope on standardised scores, so that separable scores give a finite slope.
    Returns (scale, offset).
    """
    pos, neg = _scores(positives, "positive"), _scores(negatives, "negative")
    everything = np.concatenate((pos, neg))
    mean, deviation = float(everything.mean()), float(everything.std()) or 1.0
    design = np.stack([(everything - mean) / deviation, np.ones_like(everything)], axis=1)
    label = np.concatenate((np.ones(pos.size), np.zeros(neg.size)))
    weight = np.concatenate((np.full(pos.size, 0.5 / pos.size), np.full(neg.size, 0.5 / neg.size)))
    penalty = np.array([ridge, 1e-9])

    def loss(w: Floats) -> float:
        z = design @ w
        return float(weight @ (np.logaddexp(0, z) - label * z) + 0.5 * penalty @ w**2)

    w = np.zeros(2)
    for _ in range(100):
        probability = 1 / (1 + np.exp(-np.clip(design @ w, -500, 500)))
        gradient = design.T @ (weight * (probability - label)) + penalty * w
        curvature = weight * probability * (1 - probability)
        step = np.linalg.solve(design.T @ (design * curvature[:, None]) + np.diag(penalty), gradient)
        size = 1.0
        while size > 1e-6 and loss(w - size * step) > loss(w):
            size /= 2
        w = w - size * step
        if np.abs(size * step).max() < 1e-9:
            break
    return float(w[0] / deviation), float(w[1] - w[0] * mean / deviation)


def wilson_interval(errors: int, trials: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate of ``errors`` in ``trials`` independent trials."""
    if trials <= 0:
        raise ValueError("an interval needs at least one trial")
    rate, spread = errors / trials, z**2 / trials
    centre = (rate + spread / 2) / (1 + spread)
    half = z * np.sqrt(rate * (1 - rate) / trials + spread / (4 * trials)) / (1 + spread)
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def bootstrap_ci(
    metric: Callable[..., float],
    classes: Sequence[ArrayLike],
    groups: Sequence[Sequence[str] | NDArray[np.str_]] | None = None,
    *,
    rounds: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of ``metric(*classes)``, resampling groups (speakers), not trials.

    ``classes`` are the score arrays that ``metric`` takes, such as (bona fide, spoof); ``groups`` names the group of
    every trial, class by class, and a group that occurs in several classes is drawn for all of them together. Without
    groups every trial stands for itself. Draws that leave a class empty are repeated.
    """
    arrays = [_scores(c, "some") for c in classes]
    rng = np.random.default_rng(seed)
    names = [np.array([f"{k}/{i}" for i in range(a.size)]) for k, a in enumerate(arrays)]
    if groups is not None:
        names = [np.asarray(g, dtype=np.str_) for g in groups]
    if any(n.size != a.size for n, a in zip(names, arrays, strict=True)):
        raise ValueError("groups must name one group for every trial")
    unique, ids = np.unique(np.concatenate(names), return_inverse=True)
    members = np.split(ids, np.cumsum([a.size for a in arrays])[:-1])
    values: list[float] = []
    while len(values) < rounds:
        counts = np.bincount(rng.integers(0, unique.size, unique.size), minlength=unique.size)
        drawn = [np.repeat(a, counts[m]) for a, m in zip(arrays, members, strict=True)]
        if all(d.size for d in drawn):
            values.append(metric(*drawn))
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
