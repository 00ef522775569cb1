"""The embeddings that a split names, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.studies.errors import StudyError
from tools.studies.reidentification.acceptances import People
from tools.studies.reidentification.layouts import read_table
from tools.studies.reidentification.plda import Floats
from tools.studies.reidentification.split import Row

REQUIRED = ("files", "speaker_id", "train", "test")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Embeddings (n, d) of known and (m, d) of unknown speakers, one row a recording.

    ``known`` and ``unknown`` name the speaker of each row; ``owners`` says who each unknown speaker is.
    """

    known_embeddings: Floats
    known: tuple[str, ...]
    unknown_embeddings: Floats
    unknown: tuple[str, ...]
    owners: dict[str, str]

    def averaged(self) -> tuple[Floats, list[str], Floats, list[str]]:
        """Mean embedding and name of each known, then of each unknown speaker, in the order of the names."""
        return *mean_by_name(self.known_embeddings, self.known), *mean_by_name(self.unknown_embeddings, self.unknown)

    def people(self) -> People:
        """Who is who among the averaged speakers."""
        return People.named(sorted(set(self.known)), [self.owners[name] for name in sorted(set(self.unknown))])


def mean_by_name(embeddings: NDArray[np.floating], names: Sequence[str]) -> tuple[Floats, list[str]]:
    """The mean of the rows of each name, (names, d), and the sorted names."""
    unique, index = np.unique(np.asarray(names, np.str_), return_inverse=True)
    sums = np.zeros((len(unique), embeddings.shape[1]))
    np.add.at(sums, index, embeddings)
    return sums / np.bincount(index)[:, None], [str(name) for name in unique]


def load_dataset(split: Path, *, progress: bool = True) -> Dataset:
    """Read the embeddings of a split (columns files, speaker_id, train, test and, where files are separate, test_id).

    Raises:
        StudyError: a missing column, value or file; an embedding that is empty, not finite or of another dimension; a
            recording that occurs twice, under one name or as the same embedding among known and unknown.
    """
    rows = read_rows(split)

    def read(chosen: Sequence[Row], part: str) -> Floats:
        if not chosen:
            raise StudyError(f"{split}: no rows with {part} True")
        shown = tqdm(chosen, desc=f"read {part}", unit="file", disable=None if progress else True)
        return stack((row.path for row in shown), len(chosen))

    known, unknown = [row for row in rows if row.train], [row for row in rows if row.test]
    return assemble(known, read(known, "train"), unknown, read(unknown, "test"))


def assemble(known: Sequence[Row], known_vectors: Floats, unknown: Sequence[Row], unknown_vectors: Floats) -> Dataset:
    """The data set of rows of a split and their embeddings.

    Raises:
        StudyError: embeddings of different dimensions, or the same one among known and unknown.
    """
    if known_vectors.shape[1] != unknown_vectors.shape[1]:
        raise StudyError(
            f"known embeddings have {known_vectors.shape[1]} dimensions, unknown ones {unknown_vectors.shape[1]}; "
            "make all with one model"
        )
    places = {vector.tobytes(): i for i, vector in enumerate(known_vectors)}
    for vector, row in zip(unknown_vectors, unknown, strict=True):
        if (place := places.get(vector.tobytes())) is not None:
            raise StudyError(
                f"{row.path} (test) and {known[place].path} (train) hold the same embedding: "
                "a duplicate that would be recognised for certain; remove one"
            )
    return Dataset(
        known_vectors,
        tuple(row.speaker for row in known),
        unknown_vectors,
        tuple(row.test_id for row in unknown),
        {row.test_id: row.speaker for row in unknown},
    )


def read_rows(split: Path) -> list[Row]:
    """The rows of a split file.

    Raises:
        StudyError: a missing column or value, a flag that is neither True nor False, or a file listed twice.
    """
    rows: dict[Path, Row] = {}
    for number, cells in enumerate(read_table(split, REQUIRED), 2):
        if empty := [column for column in REQUIRED if not cells[column]]:
            raise StudyError(f"{split}, line {number}: no {empty[0]}")
        flags = {part: {"true": True, "false": False}.get(cells[part].lower()) for part in ("train", "test")}
        if flags["train"] is None or flags["train"] is flags["test"]:
            raise StudyError(
                f"{split}, line {number}: train is {cells['train']!r} and test {cells['test']!r}; one must be True"
            )
        row = Row(
            Path(cells["files"]),
            cells["speaker_id"],
            bool(flags["train"]),
            bool(flags["test"]),
            cells.get("data_type", ""),
            cells.get("test_id") or cells["speaker_id"],
        )
        if row.path in rows:
            raise StudyError(f"{split}, line {number}: {row.path} occurs twice; one recording has one part")
        rows[row.path] = row
    return list(rows.values())


def stack(paths: Iterable[Path], count: int) -> Floats:
    """The embeddings at ``count`` paths, (count, d).

    Raises:
        StudyError: one cannot be used, or has another dimension than the first.
    """
    vectors: Floats | None = None
    for i, path in enumerate(paths):
        vector = read_embedding(path)
        if vectors is None:
            vectors = np.empty((count, len(vector)))
        if len(vector) != vectors.shape[1]:
            raise StudyError(f"{path}: {len(vector)} dimensions; those before have {vectors.shape[1]}; use one model")
        vectors[i] = vector
    return np.empty((0, 0)) if vectors is None else vectors


def read_embedding(path: Path) -> Floats:
    """One embedding, float64 (d,), from an .npy of any shape with one axis longer than one.

    Raises:
        StudyError: missing, empty, pickled, not numbers, more than one vector, or not finite.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise StudyError(f"{path}: not a readable embedding ({error}); make it anew") from error
    vector = array.reshape(-1) if array.size == max(array.shape, default=0) else array
    if vector.ndim != 1 or vector.size < 2 or vector.dtype.kind not in "fiu":
        raise StudyError(f"{path}: array of shape {array.shape} and type {array.dtype}; expected one embedding")
    if not np.isfinite(vector).all():
        raise StudyError(f"{path}: the embedding holds NaN or infinity; make it anew")
    result: Floats = vector.astype(np.float64)
    return result
