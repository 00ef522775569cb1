"""Probabilistic linear discriminant analysis: training by expectation-maximisation and scoring in the latent space.

An embedding is x = mean + F h + e with speaker factors h ~ N(0, I) and residual e ~ N(0, residual). Training follows
Kenny et al. (ICASSP 2013) with a minimum-divergence step; the score is the two-covariance log-likelihood ratio
(Garcia-Romero and Espy-Wilson, Interspeech 2011), written in the ``rank`` dimensions that speakers differ in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from tools.studies.errors import StudyError

Floats = NDArray[np.float64]
RANK = 100
ITERATIONS = 10
CONDITION = 1e-12
"""Least eigenvalue of a covariance over its largest; below that it counts as singular."""


@dataclass(frozen=True, slots=True)
class Projected:
    """Embeddings in the latent space: ``extended`` (n, rank + 2) is (factors, own, 1), so that the log-likelihood ratio
    of two embeddings, ``a.own + b.own + a.factors @ b.factors``, is one matrix product. Half of the constant is in each
    ``own``."""

    extended: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.extended)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Projected:
        return Projected(self.extended[rows])

    def astype(self, precision: type[np.floating]) -> Projected:
        """The same in another precision."""
        return Projected(self.extended.astype(precision, copy=False))

    def scores(self, other: Projected) -> NDArray[np.floating]:
        """Log-likelihood ratios, (len(self), len(other)); those of one of ``other`` lie side by side in memory."""
        return (other._counterpart() @ self.extended.T).T

    def pairs(self, other: Projected) -> NDArray[np.floating]:
        """Log-likelihood ratios of each with the one of ``other`` in the same place, (n,)."""
        ratios: NDArray[np.floating] = np.einsum("ij,ij->i", self.extended, other._counterpart())
        return ratios

    def _counterpart(self) -> NDArray[np.floating]:
        """(factors, 1, own)."""
        rank = self.extended.shape[1] - 2
        return self.extended[:, [*range(rank), rank + 1, rank]]


@dataclass(frozen=True, slots=True)
class Plda:
    """A trained model: ``mean`` (d,), ``loadings`` F (d, rank), ``residual`` covariance (d, d)."""

    mean: Floats
    loadings: Floats
    residual: Floats

    def project(self, embeddings: NDArray[np.floating]) -> Projected:
        """Latent representation of ``embeddings`` (n, d).

        With the eigenvalues k of F' residual^-1 F and y the projection on its eigenvectors, the score of a pair is
        1/2 sum((y1 + y2)^2 / (1 + 2k) - (y1^2 + y2^2) / (1 + k)) + sum(log(1 + k) - log(1 + 2k) / 2).
        """
        weights = linalg.solve(self.residual, self.loadings, assume_a="pos")
        values, vectors = linalg.eigh(self.loadings.T @ weights)
        values = values.clip(0)
        latent = (np.asarray(embeddings, np.float64) - self.mean) @ (weights @ vectors)
        constant = float(np.sum(np.log1p(values) - 0.5 * np.log1p(2 * values)))
        own = 0.5 * (latent**2 @ (1 / (1 + 2 * values) - 1 / (1 + values)) + constant)
        return Projected(np.column_stack([latent / np.sqrt(1 + 2 * values), own, np.ones_like(own)]))


def train_plda(
    embeddings: NDArray[np.floating], speakers: Sequence[str], *, rank: int = RANK, iterations: int = ITERATIONS
) -> Plda:
    """Train on ``embeddings`` (n, d) of ``speakers`` (n names), of any number of recordings each.

    Raises:
        StudyError: embeddings that are not finite, fewer than two speakers, nobody with two recordings, a rank above
            d, or a covariance that is singular.
    """
    vectors = np.asarray(embeddings, np.float64)
    _check(vectors, speakers, rank)
    mean, total = vectors.mean(axis=0), np.cov(vectors, rowvar=False, bias=True)
    values, directions = linalg.eigh(total)
    if values[0] <= CONDITION * values[-1]:
        raise StudyError(
            f"the covariance of {len(vectors)} training embeddings of {vectors.shape[1]} dimensions is singular; "
            "use more recordings, or fewer dimensions (--dimensions)"
        )
    names, index = np.unique(np.asarray(speakers, np.str_), return_inverse=True)
    counts = np.bincount(index).astype(np.float64)
    sums = np.zeros((len(names), vectors.shape[1]))
    np.add.at(sums, index, vectors - mean)
    loadings, residual = directions[:, ::-1][:, :rank], total
    for _ in range(iterations):
        loadings, residual = _iterate(loadings, residual, sums, counts, total)
        if linalg.eigvalsh(residual, subset_by_index=[0, 0])[0] <= CONDITION * values[-1]:
            raise StudyError(
                f"the covariance within speakers became singular ({len(vectors)} recordings of {len(names)} speakers); "
                "use more recordings a speaker, a lower rank (--plda_rank) or fewer dimensions (--dimensions)"
            )
    return Plda(mean, loadings, residual)


def _check(vectors: Floats, speakers: Sequence[str], rank: int) -> None:
    if vectors.ndim != 2 or len(vectors) != len(speakers):
        raise StudyError(
            f"embeddings of shape {vectors.shape} for {len(speakers)} speaker names; expected one row each"
        )
    if bad := int((~np.isfinite(vectors)).any(axis=1).sum()):
        raise StudyError(f"{bad} of {len(vectors)} training embeddings hold NaN or infinity; make them anew")
    distinct = len(set(speakers))
    if distinct < 2:
        raise StudyError(f"{distinct} training speakers; PLDA needs at least two")
    if distinct == len(speakers):
        raise StudyError("every training speaker has one recording only; PLDA needs speakers with two or more")
    if not 1 <= rank <= vectors.shape[1]:
        raise StudyError(f"PLDA rank {rank}; embeddings of {vectors.shape[1]} dimensions allow 1 to {vectors.shape[1]}")


def _iterate(loadings: Floats, residual: Floats, sums: Floats, counts: Floats, total: Floats) -> tuple[Floats, Floats]:
    """One step of expectation-maximisation; ``sums`` (speakers, d) of centred embeddings, ``counts`` (speakers,)."""
    rank = loadings.shape[1]
    weights = linalg.solve(residual, loadings, assume_a="pos")
    precision = loadings.T @ weights
    projected = sums @ weights
    factors = np.empty((len(counts), rank))
    second, weighted = np.zeros((rank, rank)), np.zeros((rank, rank))
    for count in np.unique(counts):
        group = counts == count
        posterior = linalg.inv(count * precision + np.eye(rank))
        factors[group] = projected[group] @ posterior
        moment = group.sum() * posterior + factors[group].T @ factors[group]
        second += moment
        weighted += count * moment
    cross = factors.T @ sums
    updated = linalg.solve(weighted, cross, assume_a="pos").T
    residual = total - updated @ cross / counts.sum()
    return updated @ linalg.cholesky(second / len(counts)), (residual + residual.T) / 2
