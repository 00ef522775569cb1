"""Resynthesize the utterance of every recording, genuine and adversarial, by every transform of the study.

Copies that are there already, and newer than what they copy, are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from tools.studies import cluster
from tools.studies.adversarial.attack import report_failures
from tools.studies.adversarial.conditions import Case, Condition, conditions
from tools.studies.adversarial.config import Study, read_study
from tools.studies.adversarial.speech import read_utterance, to_pcm, write_pcm
from tools.studies.adversarial.transforms import fingerprint, load_transform
from tools.studies.cluster import Run
from tools.studies.results import claim, is_whole
from voiceid.errors import AudioError


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies one recording into ``folder`` by the transform of that name; returns why it could not, or nothing."""

    transform: str
    folder: Path

    def __call__(self, case: Case) -> str:
        path = copy_path(self.folder, case)
        try:
            if is_whole(path) and path.stat().st_mtime >= case.recording.stat().st_mtime:
                return ""
            _, utterance = read_utterance(case.recording)
        except (AudioError, OSError) as error:
            return str(error)
        with torch.no_grad():
            copy = load_transform(self.transform)(torch.from_numpy(utterance.samples))
        if not torch.isfinite(copy).all():
            return f"{case.recording}: {self.transform} gave samples that are not numbers"
        write_pcm(path, to_pcm(copy.numpy()))
        return ""


def copy_path(folder: Path, case: Case) -> Path:
    return folder / f"{case.copy}.flac"


def copies_folder(study: Study, transform: str, condition: str) -> Path:
    return study.output / "copies" / transform / condition


def vocode_all(study: Study, run: Run = map) -> list[str]:
    """Copy every recording of every condition; returns what failed, and why.

    Raises:
        StudyError: an attack is not complete, a transform cannot be had, or a folder holds copies by another.
    """
    failed: set[str] = set()
    for condition in conditions(study):
        for transform in study.transforms:
            folder = copies_folder(study, transform, condition.name)
            claim(folder, {"transform": fingerprint(transform), "data": str(study.data)})
            once = _once(condition)
            done = run(Copier(transform, folder), once)
            label = f"{transform}, {condition.name}"
            failed |= {r for r in tqdm(done, total=len(once), desc=label, unit="file", disable=None) if r}
    return sorted(failed)


def _once(condition: Condition) -> Sequence[Case]:
    """One case for each recording: genuine ones are tried more often."""
    return list({case.copy: case for case in condition.cases}.values())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    with cluster.workers_for(arguments) as workers:
        return report_failures(vocode_all(read_study(arguments.study), workers))
