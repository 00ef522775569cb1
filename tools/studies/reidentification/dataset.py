"""The embeddings that a split names, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.studies.reidentification.acceptances import People
from tools.studies.reidentification.errors import StudyError
from tools.studies.reidentification.layouts import read_table
from tools.studies.reidentification.plda import Floats

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
    rows = read_table(split, REQUIRED)
    _check_rows(split, rows)
    parts = {part: [row for row in rows if row[part].lower() == "true"] for part in ("train", "test")}
    for part, chosen in parts.items():
        if not chosen:
            raise StudyError(f"{split}: no rows with {part} True")
    vectors = {part: _stack(chosen, part, progress) for part, chosen in parts.items()}
    if vectors["train"].shape[1] != vectors["test"].shape[1]:
        raise StudyError(
            f"{split}: known embeddings have {vectors['train'].shape[1]} dimensions, unknown ones "
            f"{vectors['test'].shape[1]}; make all with one model"
        )
    _check_leak(vectors["train"], vectors["test"], parts)
    unknown = [row.get("test_id") or row["speaker_id"] for row in parts["test"]]
    return Dataset(
        vectors["train"],
        tuple(row["speaker_id"] for row in parts["train"]),
        vectors["test"],
        tuple(unknown),
        dict(zip(unknown, (row["speaker_id"] for row in parts["test"]), strict=True)),
    )


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


def _check_rows(split: Path, rows: Sequence[dict[str, str]]) -> None:
    seen: set[str] = set()
    for number, row in enumerate(rows, 2):
        if empty := [column for column in REQUIRED if not row[column]]:
            raise StudyError(f"{split}, line {number}: no {empty[0]}")
        if flags := [row[part] for part in ("train", "test") if row[part].lower() not in ("true", "false")]:
            raise StudyError(f"{split}, line {number}: train or test is {flags[0]!r}; expected True or False")
        if row["files"] in seen:
            raise StudyError(f"{split}, line {number}: {row['files']} occurs twice; one recording has one part")
        seen.add(row["files"])


def _stack(rows: Sequence[dict[str, str]], part: str, progress: bool) -> Floats:
    first = read_embedding(Path(rows[0]["files"]))
    vectors = np.empty((len(rows), len(first)))
    for i, row in enumerate(tqdm(rows, desc=f"read {part}", unit="file", disable=None if progress else True)):
        vector = read_embedding(Path(row["files"]))
        if vector.shape != first.shape:
            raise StudyError(
                f"{row['files']}: {len(vector)} dimensions; the others of {part} have {len(first)}; use one model"
            )
        vectors[i] = vector
    return vectors


def _check_leak(known: Floats, unknown: Floats, parts: dict[str, list[dict[str, str]]]) -> None:
    places = {row.tobytes(): i for i, row in enumerate(known)}
    for row, entry in zip(unknown, parts["test"], strict=True):
        if (place := places.get(row.tobytes())) is not None:
            raise StudyError(
                f"{entry['files']} (test) and {parts['train'][place]['files']} (train) hold the same embedding: "
                "a duplicate that would be recognised for certain; remove one"
            )
