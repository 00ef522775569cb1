"""The fusion's SVM: a linear machine over the logarithms of three probabilities, with a logistic calibration.

A judge's log-likelihood ratio ``l`` becomes ``-log(1 + exp(-l))``, the log of the probability that it speaks for the
owner at even odds. On this common scale a weighted sum is a weighted product of probabilities: one judge's firm no
weighs as much as it is firm, while a firm yes adds nothing beyond certainty and so buys nothing back. With weights that
are not negative the result rises with every score, everywhere; an RBF kernel rises only where there were data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import LinearSVC

from tools.train.metrics import fit_calibration

Floats = NDArray[np.float64]
CLIP = 10.0
"""Log-likelihood ratios beyond this (1 : 22,000) say no more than this."""


@dataclass(frozen=True, slots=True)
class FusionSvm:
    """``probability = sigmoid(scale * (weights @ x + bias) + offset)``, ``x`` as :func:`normalise` makes it; (3,)."""

    weights: Floats
    bias: float
    scale: float = 1.0
    offset: float = 0.0

    def decision(self, llr: ArrayLike) -> Floats:
        """Decision values (n,) of log-likelihood ratios (n, 3)."""
        return np.asarray(normalise(llr) @ self.weights + self.bias)

    def __call__(self, llr: ArrayLike) -> Floats:
        """Probabilities (n,) of log-likelihood ratios (n, 3)."""
        return np.asarray(1 / (1 + np.exp(-(self.scale * self.decision(llr) + self.offset))))

    def calibrated(self, decisions: Floats, authentic: NDArray[np.bool_]) -> FusionSvm:
        """With a logistic map fitted on ``decisions`` (n,) of trials that the machine or its twins had not learnt."""
        scale, offset = fit_calibration(decisions[authentic], decisions[~authentic])
        return replace(self, scale=scale, offset=offset)

    def save(self, path: Path) -> None:
        """Write an .npz."""
        np.savez(path, weights=self.weights, bias=self.bias, scale=self.scale, offset=self.offset)

    @classmethod
    def load(cls, path: Path) -> FusionSvm:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as table:
            return cls(table["weights"], *(float(table[name]) for name in ("bias", "scale", "offset")))


def normalise(llr: ArrayLike) -> Floats:
    """Log-likelihood ratios (n, 3), clipped to +-CLIP, as log-probabilities at even odds (n, 3), at most 0."""
    return np.asarray(-np.logaddexp(0, -np.clip(np.asarray(llr, np.float64), -CLIP, CLIP)))


def scenario_weights(scenarios: Sequence[str], authentic: NDArray[np.bool_]) -> Floats:
    """Weights (n,) of mean 1: half for the authentic trials, half shared evenly by the other scenarios."""
    names = np.array(scenarios)
    weights = np.zeros(len(names))
    weights[authentic] = 0.5 / max(1, int(authentic.sum()))
    others = sorted(set(names[~authentic]))
    for name in others:
        rows = (names == name) & ~authentic
        weights[rows] = 0.5 / len(others) / rows.sum()
    return weights * len(weights)


def fit(llr: Floats, authentic: NDArray[np.bool_], weights: Floats, *, cost: float) -> FusionSvm:
    """Fit the SVM (squared hinge), not yet calibrated.

    A judge whose weight would be negative is left out (weight 0): its score contradicted the labels.

    Raises:
        ValueError: every judge contradicts the labels.
    """
    x = normalise(llr)
    used = list(range(x.shape[1]))
    while used:
        machine = LinearSVC(C=cost, dual=False, max_iter=20_000)
        machine.fit(x[:, used], authentic.astype(int), sample_weight=weights)
        if (machine.coef_[0] >= 0).all():
            full = np.zeros(x.shape[1])
            full[used] = machine.coef_[0]
            return FusionSvm(full, float(machine.intercept_[0]))
        del used[int(np.argmin(machine.coef_[0]))]
    raise ValueError("every judge's score falls where it should rise: the labels or the judges are swapped")


def largest_fall(machine: FusionSvm, *, points: int = 41) -> float:
    """The largest fall of probability as one score rises, on a grid over more than the clipped range; 0 if monotone."""
    axis = np.linspace(-1.2 * CLIP, 1.2 * CLIP, points)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    cube = machine(grid).reshape(points, points, points)
    return float(max(0.0, *(-np.diff(cube, axis=i).min() for i in range(3))))
