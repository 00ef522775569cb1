"""Files of results, written whole or not at all: the study's JSON and CSV schemas."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.studies.reidentification.errors import StudyError
from tools.studies.reidentification.plda import Floats

SINGLE = ("eer_only", "mindcf_only", "manual")
"""Results with one threshold; their files hold values where those with both hold {eer, mindcf}."""


@dataclass(frozen=True, slots=True)
class ScoredData:
    """What a data file says: ``scores`` and ``actual`` (known, unknown) in the order of the two lists of names."""

    scores: Floats
    actual: NDArray[np.bool_]
    threshold: float
    known: tuple[str, ...]
    unknown: tuple[str, ...]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that replaces ``path`` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON; NaN and infinity become null."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(finite(content), indent=1) + "\n", "utf-8")


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file with a header."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def read_json(path: Path) -> Any:
    """Raises StudyError where the file is missing or not JSON (interrupted copies, for one)."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: not a readable result file ({error})") from error


def read_data(path: Path, kind: str) -> ScoredData:
    """Scores, labels and the threshold of ``kind`` (eer, mindcf, eer_only, mindcf_only, manual) from a data file.

    Scores lie in the file or, for large matrices, in an .npy beside it; they are reordered as the labels are.

    Raises:
        StudyError: a missing field, another kind of threshold, shapes that do not fit, or scores that are not numbers.
    """
    content = read_json(path)
    try:
        block = content["plda_scores"][0]
        threshold = content["average_th"]
        threshold = float(threshold if kind in SINGLE else threshold[kind])
        known, unknown = tuple(content["train_speakers"]), tuple(content["test_speakers"])
        scores = _matrix(path, block["scores"], np.float64)
        rows = _positions(known, block["modelset"])
        columns = _positions(unknown, block["segset"])
        actual = _matrix(path, content["actual_labels"], np.bool_)
    except (KeyError, IndexError, TypeError, ValueError, OSError) as error:
        raise StudyError(f"{path}: not a data file with a threshold of kind {kind!r} ({error!r})") from error
    if scores.shape != (len(rows), len(columns)) or actual.shape != (len(known), len(unknown)):
        raise StudyError(
            f"{path}: scores of shape {scores.shape} and labels of shape {actual.shape} "
            f"for {len(known)} known and {len(unknown)} unknown speakers"
        )
    if not np.isfinite(scores).all():
        raise StudyError(f"{path}: {int((~np.isfinite(scores)).sum())} scores are not finite")
    return ScoredData(scores[np.ix_(rows, columns)], actual, threshold, known, unknown)


def finite(content: Any) -> Any:
    """``content`` with NaN and infinity as None and arrays as lists, all the way down."""
    if isinstance(content, dict):
        return {str(key): finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    if isinstance(content, np.ndarray):
        return finite(content.tolist())
    if isinstance(content, np.generic):
        return finite(content.item())
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _matrix(path: Path, content: Any, kind: type) -> NDArray[Any]:
    if isinstance(content, str):
        content = np.load(path.parent / content, allow_pickle=False)
    matrix: NDArray[Any] = np.asarray(content, kind)
    return matrix


def _positions(wanted: Sequence[str], present: Sequence[str]) -> NDArray[np.intp]:
    if len(set(present)) != len(present):
        raise ValueError("a speaker occurs twice")
    places = {name: i for i, name in enumerate(present)}
    return np.array([places[name] for name in wanted], np.intp)
