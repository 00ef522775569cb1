"""All recordings that splits are drawn from, with their embeddings in one matrix."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tools.studies.reidentification.dataset import Dataset, assemble, stack
from tools.studies.reidentification.layouts import Recording
from tools.studies.reidentification.plda import Floats
from tools.studies.reidentification.split import Row
from tools.studies.results import whole_file


@dataclass(frozen=True, slots=True)
class Pool:
    """``recordings`` of each data set; ``matrix``, an .npy file of their embeddings (n, d) in that order; a ``key`` of
    both. It stays small wherever it is sent: each process maps the file."""

    recordings: tuple[tuple[Recording, ...], ...]
    matrix: Path
    key: str

    def dataset(self, rows: Sequence[Row]) -> Dataset:
        """The embeddings of a split of these recordings."""
        places = {r.path: i for i, r in enumerate(r for part in self.recordings for r in part)}
        known, unknown = [row for row in rows if row.train], [row for row in rows if row.test]
        matrix = np.load(self.matrix, mmap_mode="r")
        of_known, of_unknown = (np.array(matrix[[places[row.path] for row in part]]) for part in (known, unknown))
        return assemble(known, of_known, unknown, of_unknown)


def load_pool(recordings: Sequence[Sequence[Recording]], cache: Path) -> Pool:
    """Read all embeddings into one matrix in ``cache``, or use the one that is there.

    Raises:
        StudyError: an embedding that cannot be used.
    """
    everything = [r.path for part in recordings for r in part]
    key = fingerprint(everything)
    read = tqdm(everything, desc="read", unit="file", disable=None)
    return keep(recordings, lambda: stack(read, len(everything)), cache / f"embeddings-{key}.npy", key)


def keep(recordings: Sequence[Sequence[Recording]], make: Callable[[], Floats], matrix: Path, key: str) -> Pool:
    """A pool whose ``matrix`` is made where it is not there yet, or not whole."""
    if not _whole(matrix, sum(map(len, recordings))):
        with whole_file(matrix) as temporary, temporary.open("wb") as file:
            np.save(file, make())
    return Pool(tuple(tuple(part) for part in recordings), matrix, key)


def _whole(matrix: Path, rows: int) -> bool:
    try:
        found: tuple[int, ...] = np.load(matrix, mmap_mode="r").shape
    except (OSError, ValueError, EOFError):
        return False
    return len(found) == 2 and found[0] == rows


def fingerprint(paths: Sequence[Path]) -> str:
    """A hash of names, sizes and times of files."""
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        digest.update(f"{os.fspath(path)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
