"""An RBF-kernel SVM on rank-transformed features, as plain arrays: what the liveness model is.

score = bias + sum_i dual_i exp(-gamma |weight * (rank(x) - rank(v_i))|^2), where ``rank`` maps every feature through
the training set's quantiles to a normal distribution, linearly between its knots and constant beyond them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.svm import SVC

Floats = NDArray[np.float64]

KNOTS = 65
"""Quantiles a feature."""
TAIL = 0.005
"""Probability beyond the first and last knot: normal scores stay within +-2.6, so that no outlier leads."""


@dataclass(frozen=True, slots=True)
class RankTransform:
    """Piecewise linear map of every feature: ``knots`` (k, d) ascending to ``values`` (k, d)."""

    knots: Floats
    values: Floats

    @classmethod
    def fit(cls, features: ArrayLike) -> RankTransform:
        """Fit to ``features`` (n, d). Equal knots (a discrete feature) share the mean of their values."""
        levels = np.linspace(TAIL, 1 - TAIL, KNOTS)
        knots = np.quantile(np.asarray(features, dtype=np.float32).astype(np.float64), levels, axis=0)
        knots = knots.astype(np.float32).astype(np.float64)
        values = np.repeat(norm.ppf(levels)[:, None], knots.shape[1], axis=1)
        for column in range(knots.shape[1]):
            _, group = np.unique(knots[:, column], return_inverse=True)
            means = np.bincount(group, values[:, column]) / np.bincount(group)
            values[:, column] = means[group]
        return cls(knots, values)

    def __call__(self, features: ArrayLike) -> Floats:
        """Transform (n, d) to (n, d)."""
        x = np.asarray(features, dtype=np.float32).astype(np.float64)
        columns = range(x.shape[1])
        return np.stack([np.interp(x[:, c], self.knots[:, c], self.values[:, c]) for c in columns], axis=1)


@dataclass(frozen=True, slots=True)
class RankSvm:
    """A fitted machine: ``weights`` (d,) scale the ranks, ``support`` (m, d) holds the scaled ranks, ``dual`` (m,)."""

    transform: RankTransform
    weights: Floats
    support: Floats
    dual: Floats
    bias: float
    gamma: float

    @classmethod
    def fit(
        cls,
        features: ArrayLike,
        positive: ArrayLike,
        *,
        weights: ArrayLike,
        c: float,
        gamma: float,
        sample_weight: ArrayLike | None = None,
        transform: RankTransform | None = None,
    ) -> RankSvm:
        """Fit on ``features`` (n, d) with labels ``positive`` (n,) bool; classes weigh the same.

        Columns of weight 0 take no part. Support vectors are rounded to half precision before fitting, so that storing
        them so changes nothing.
        """
        transform = transform or RankTransform.fit(features)
        scale = np.asarray(weights, dtype=np.float64)
        ranks = half(transform(features) * scale)
        machine = SVC(C=c, gamma=gamma, class_weight="balanced", cache_size=1000)
        machine.fit(ranks, np.asarray(positive, dtype=bool), sample_weight=sample_weight)
        support, dual = np.asarray(machine.support_vectors_), machine.dual_coef_[0]
        return cls(transform, scale, support, dual, float(machine.intercept_[0]), gamma)

    def __call__(self, features: ArrayLike, *, batch: int = 512) -> Floats:
        """Scores (n,) of ``features`` (n, d), positive high."""
        ranks = self.transform(features) * self.weights
        norms = (self.support**2).sum(axis=1)
        scores = []
        for start in range(0, len(ranks), batch):
            part = ranks[start : start + batch]
            squared = (part**2).sum(axis=1)[:, None] + norms - 2 * part @ self.support.T
            scores.append(np.exp(-self.gamma * np.maximum(squared, 0)) @ self.dual + self.bias)
        return np.concatenate(scores) if scores else np.zeros(0)

    def save(self, path: Path) -> None:
        """Write as ``.npz`` (no pickle)."""
        with path.open("wb") as file:
            np.savez(
                file,
                knots=self.transform.knots,
                values=self.transform.values,
                weights=self.weights,
                support=self.support,
                dual=self.dual,
                bias=self.bias,
                gamma=self.gamma,
            )

    @classmethod
    def load(cls, path: Path) -> RankSvm:
        """Read what :meth:`save` wrote.

        Raises:
            SystemExit: missing, or not such a file.
        """
        try:
            with np.load(path, allow_pickle=False) as table:
                t = {name: table[name] for name in table.files}
            return cls(
                RankTransform(t["knots"], t["values"]),
                t["weights"],
                t["support"],
                t["dual"],
                float(t["bias"]),
                float(t["gamma"]),
            )
        except (OSError, ValueError, KeyError) as error:
            raise SystemExit(f"{path}: not a liveness checkpoint ({error})") from error


def half(values: Floats) -> Floats:
    """Rounded to half precision."""
    return values.astype(np.float16).astype(np.float64)


def block_weights(size: int, blocks: dict[str, slice], powers: dict[str, float]) -> Floats:
    """Weights (size,) under which every block contributes ``powers`` to the squared distance, per column."""
    weights = np.zeros(size)
    for name, columns in blocks.items():
        weights[columns] = np.sqrt(powers.get(name, 0.0))
    return weights
