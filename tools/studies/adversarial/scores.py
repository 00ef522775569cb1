"""Scores of every trial by the card under attack, of the recording and of its copies."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.studies.adversarial.bim import snr_db
from tools.studies.adversarial.conditions import Case, Condition
from tools.studies.adversarial.config import Study
from tools.studies.adversarial.speech import read_utterance, to_pcm
from tools.studies.adversarial.vocode import copies_folder, copy_path
from tools.studies.cluster import Run
from tools.studies.errors import StudyError
from tools.studies.results import write_rows
from voiceid.audio import read_waveform
from voiceid.errors import AudioError
from voiceid.models.store import find_model
from voiceid.scoring.identity import Embedding, IdentityModel, direction
from voiceid.types import Samples, Waveform

Floats = NDArray[np.float64]
FIXED = ("trial", "target", "snr_db", "none")


@dataclass(frozen=True, slots=True)
class Scores:
    """Trials of one condition as columns.

    ``target`` (n,); ``snr_db`` (n,) of the perturbation, NaN where there is none or the original is not known;
    ``plain`` (n,) cosines of the recordings; ``copied`` (n,) cosines of the copies by transform.
    """

    target: NDArray[np.bool_]
    snr_db: Floats
    plain: Floats
    copied: dict[str, Floats]

    def variation(self, transform: str) -> Floats:
        """The score variation d = |s - s'| (n,)."""
        return np.abs(self.plain - self.copied[transform])


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the cases of one recording: their rows of the table."""

    study: Study
    condition: str

    def __call__(self, cases: Sequence[Case]) -> list[tuple[str | float, ...]]:
        card, data = self.study.card, self.study.data
        waveform, embeddings = self._embed(cases[0])
        snr = self._snr(cases[0], waveform.samples)
        rows = []
        for case in cases:
            reference = _reference(card, data, case.trial.enrolment)
            scores = [float(reference @ embedding) for embedding in embeddings]
            if not np.isfinite(scores).all():
                raise StudyError(f"'{case.trial}': card {card!r} gave a score that is not a number")
            rows.append((case.trial.key, int(case.trial.target), snr, *scores))
        return rows

    def _embed(self, case: Case) -> tuple[Waveform, list[Embedding]]:
        """The recording, its embedding, and those of its copies."""
        model = _model(self.study.card)
        waveform, utterance = read_utterance(case.recording)
        embeddings = [model.embed(utterance.net_speech())]
        for transform in self.study.transforms:
            path = copy_path(copies_folder(self.study, transform, self.condition), case)
            copy = read_waveform(path).samples
            if len(copy) != len(utterance.samples):
                raise StudyError(f"{path}: not a copy of the utterance in {case.recording}; remove it, run 'vocode'")
            embeddings.append(model.embed(replace(utterance, samples=copy).net_speech()))
        return waveform, embeddings

    def _snr(self, case: Case, samples: Samples) -> float:
        if case.original == case.recording:
            return float("nan")
        original = read_waveform(case.original).samples
        if len(original) != len(samples):
            raise StudyError(
                f"{case.recording}: {len(samples)} samples; its original {case.original} has {len(original)}; remove "
                "the recording, run 'attack' again"
            )
        return snr_db(to_pcm(original), to_pcm(samples))


def score_all(study: Study, condition: Condition, run: Run = map) -> Scores:
    """Score every case of ``condition``; the table is kept in the study's folder ``scores``.

    Raises:
        StudyError: a recording or copy is missing or unfit.
    """
    try:
        groups = _by_recording(condition)
        done = run(Scorer(study, condition.name), groups)
        progress = tqdm(done, total=len(groups), desc=condition.name, unit="file", disable=None)
        rows = sorted((row for some in progress for row in some), key=lambda row: str(row[0]))
    except AudioError as error:
        raise StudyError(
            f"{condition.name}: {error}; remove it and run the steps before again, or take it out of the list"
        ) from error
    path = study.output / "scores" / f"{condition.name}.csv"
    write_rows(path, (*FIXED, *study.transforms), rows)
    return read_scores(path, study.transforms)


def read_scores(path: Path, transforms: Sequence[str]) -> Scores:
    """Read the table of one condition.

    Raises:
        StudyError: missing, without one of ``transforms``, or damaged.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = {name: np.array([float(row[name]) for row in rows]) for name in (*FIXED[1:], *transforms)}
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise StudyError(f"{path}: not a table of scores of this study ({error!r}); run 'detect' again") from error
    copied = {name: columns[name] for name in transforms}
    if not all(np.isfinite(scores).all() for scores in (columns["none"], *copied.values())):
        raise StudyError(f"{path}: holds scores that are not numbers; run 'detect' again")
    return Scores(columns["target"] == 1, columns["snr_db"], columns["none"], copied)


def _by_recording(condition: Condition) -> list[list[Case]]:
    """The cases of each recording together: it is embedded once."""
    groups: dict[str, list[Case]] = {}
    for case in condition.cases:
        groups.setdefault(case.copy, []).append(case)
    return list(groups.values())


@lru_cache(maxsize=2)
def _model(card: str) -> IdentityModel:
    return IdentityModel(find_model(card, "identity"))


@lru_cache(maxsize=4096)
def _reference(card: str, data: Path, enrolment: tuple[str, ...]) -> Embedding:
    heard = [_model(card).embed(read_utterance(data / name)[1].net_speech()) for name in enrolment]
    return direction(np.stack(heard))
