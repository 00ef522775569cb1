"""People who do not exist: embeddings from a Gaussian population whose covariances are known."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tools.studies.errors import StudyError
from tools.studies.reidentification.layouts import Recording
from tools.studies.reidentification.plda import Floats
from tools.studies.reidentification.pool import Pool, keep
from tools.studies.study_file import AtLeast, Count, Positive, Seed, options_of


@dataclass(frozen=True, slots=True)
class Population:
    """Speakers differ in ``rank`` of ``dimensions`` directions with standard deviations from ``spread`` down to half
    of it; recordings of one differ in all directions by a standard deviation of 1. The defaults make people hard to
    tell apart, so that both kinds of error occur at the strict threshold."""

    dimensions: Annotated[int, AtLeast(2)] = 192
    rank: Count = 100
    spread: Positive = 1.0
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.rank > self.dimensions:
            raise StudyError(f"people who differ in {self.rank} of {self.dimensions} directions; lower the rank")

    def loadings(self) -> Floats:
        """F (dimensions, rank): the covariance between speakers is F F', that within them the identity."""
        rng = np.random.default_rng([self.seed, 0])
        directions, _ = np.linalg.qr(rng.normal(size=(self.dimensions, self.rank)))
        return directions * self.spread * np.linspace(1.0, 0.5, self.rank)

    def voices(self, first: int, count: int) -> Floats:
        """Voices of speakers ``first`` on, (count, dimensions): the same however they are asked for."""
        loadings = self.loadings()
        rows = [
            np.random.default_rng([self.seed, 1, block]).normal(size=(CHUNK, self.rank))
            for block in _chunks(first, count)
        ]
        start = first % CHUNK
        return np.concatenate(rows)[start : start + count] @ loadings.T

    def recordings(self, first: int, count: int, session: int) -> Floats:
        """One recording of each of these speakers in ``session``, (count, dimensions)."""
        voices = self.voices(first, count)
        noise = [
            np.random.default_rng([self.seed, 2, session, block]).normal(size=(CHUNK, self.dimensions))
            for block in _chunks(first, count)
        ]
        start = first % CHUNK
        return voices + np.concatenate(noise)[start : start + count]


def population_of(arguments: argparse.Namespace) -> Population:
    """By ``--dimension``, ``--rank``, ``--spread`` and ``--seed``.

    Raises:
        StudyError: an impossible value.
    """
    return options_of(Population, argparse.Namespace(**vars(arguments) | {"dimensions": arguments.dimension}))


CHUNK = 1024
"""Speakers that share a random generator."""


def _chunks(first: int, count: int) -> range:
    return range(first // CHUNK, (first + count - 1) // CHUNK + 1)


@dataclass(frozen=True, slots=True)
class Session:
    """A source of one recording of each of ``count`` speakers from ``first`` on, made when it is read."""

    population: Population
    first: int
    count: int
    session: int

    def __len__(self) -> int:
        return self.count

    def read(self, rows: slice | NDArray[np.intp]) -> NDArray[np.floating]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.count)
            return self.population.recordings(self.first + start, stop - start, self.session)
        wanted = self.first + np.asarray(rows)
        found = np.empty((len(wanted), self.population.dimensions))
        for chunk in np.unique(wanted // CHUNK):  # whose people are all made at once
            here = wanted // CHUNK == chunk
            found[here] = self.population.recordings(chunk * CHUNK, CHUNK, self.session)[wanted[here] % CHUNK]
        return found


def synthetic_pool(population: Population, speakers: int, sessions: int, cache: Path) -> Pool:
    """``sessions`` recordings of each of ``speakers`` as a pool; the paths of its recordings name no files."""

    def make() -> Floats:
        vectors = np.stack([population.recordings(0, speakers, i) for i in range(sessions)], axis=1)
        return vectors.reshape(-1, population.dimensions)

    recordings = tuple(
        Recording(Path(f"synthetic/s{speaker:06d}/{i}/0.npy"), f"s{speaker:06d}", str(i), "", "synthetic")
        for speaker in range(speakers)
        for i in range(sessions)
    )
    of = population
    key = f"synthetic-{of.dimensions}-{of.rank}-{of.spread}-{of.seed}-{speakers}-{sessions}"
    return keep((recordings,), make, cache / f"{key}.npy", key)
