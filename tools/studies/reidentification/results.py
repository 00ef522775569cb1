"""Reading back the data files of the study's JSON schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.studies.errors import StudyError
from tools.studies.reidentification.plda import Floats
from tools.studies.results import read_json

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
