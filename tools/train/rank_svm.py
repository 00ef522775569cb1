"""RBF-kernel SVMs on rank-transformed features, as plain arrays: what the liveness model is.

A machine's score is bias + sum_i dual_i exp(-gamma |weight * (rank(x) - rank(v_i))|^2), where ``rank`` maps every
feature through the training set's quantiles to a normal distribution, linearly between its knots and constant beyond
them. A committee's score is the mean of its machines', each clipped to +-2: machines on few, robust features beside
machines on all of them hold up best on replay set-ups that none of them saw (:mod:`tools.train.asvspoof2017`).
"""

from __future__ import annotations

from collections.abc import Sequence
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
CLIP = 2.0
"""A machine's say in a committee: twice its margin."""
STORED = ("weights", "support", "dual", "bias", "gamma")


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


@dataclass(frozen=True, slots=True)
class Member:
    """Settings of one machine: column weights (d,), C, and gamma times the squared norm of the weights."""

    weights: Floats
    c: float
    gamma: float

    def fit(
        self,
        features: ArrayLike,
        positive: ArrayLike,
        transform: RankTransform | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> RankSvm:
        """The machine of these settings; arguments as for :meth:`RankSvm.fit`."""
        return RankSvm.fit(
            features,
            positive,
            weights=self.weights,
            c=self.c,
            gamma=self.gamma / float(self.weights @ self.weights),
            sample_weight=sample_weight,
            transform=transform,
        )


@dataclass(frozen=True, slots=True)
class Committee:
    """Machines that share one rank transform."""

    machines: tuple[RankSvm, ...]

    @classmethod
    def fit(cls, features: ArrayLike, positive: ArrayLike, members: Sequence[Member]) -> Committee:
        """Fit every member on ``features`` (n, d) with labels ``positive`` (n,) bool."""
        transform = RankTransform.fit(features)
        return cls(tuple(member.fit(features, positive, transform) for member in members))

    def __call__(self, features: ArrayLike) -> Floats:
        """Scores (n,) of ``features`` (n, d), positive high, within +-2."""
        return combine([machine(features) for machine in self.machines])

    @property
    def vectors(self) -> int:
        """Support vectors of all machines."""
        return sum(len(machine.dual) for machine in self.machines)

    @property
    def size(self) -> int:
        """Bytes of the support vectors in half precision, without the columns that a machine leaves out."""
        return sum(2 * len(m.dual) * np.count_nonzero(m.weights) for m in self.machines)

    def save(self, path: Path) -> None:
        """Write as ``.npz`` (no pickle)."""
        first = self.machines[0].transform
        arrays = {"knots": first.knots, "values": first.values, "machines": np.array(len(self.machines))}
        for index, machine in enumerate(self.machines):
            arrays |= {f"{name}{index}": np.asarray(getattr(machine, name)) for name in STORED}
        with path.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> Committee:
        """Read what :meth:`save` wrote.

        Raises:
            SystemExit: missing, or not such a file.
        """
        try:
            with np.load(path, allow_pickle=False) as table:
                transform = RankTransform(table["knots"], table["values"])
                machines = []
                for index in range(int(table["machines"])):
                    weights, support, dual, bias, gamma = (table[f"{name}{index}"] for name in STORED)
                    machines.append(RankSvm(transform, weights, support, dual, float(bias), float(gamma)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path}: not a liveness checkpoint ({error})") from error
        return cls(tuple(machines))


def combine(scores: Sequence[Floats]) -> Floats:
    """A committee's scores (n,) from those of its machines."""
    mean: Floats = np.mean([np.clip(s, -CLIP, CLIP) for s in scores], axis=0)
    return mean


def half(values: Floats) -> Floats:
    """Rounded to half precision."""
    return values.astype(np.float16).astype(np.float64)


def block_weights(size: int, blocks: dict[str, slice], powers: dict[str, float]) -> Floats:
    """Weights (size,) under which each column of a block of ``powers`` adds that much to the squared distance."""
    weights = np.zeros(size)
    for name, power in powers.items():
        weights[blocks[name]] = np.sqrt(power)
    return weights
