"""Make adversarial recordings of every trial, for every attack and budget of the study.

Recordings that are there already are kept, so that an interrupted attack goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from tools.studies import cluster
from tools.studies.adversarial.bim import Deception, bim, pgd, steps_for
from tools.studies.adversarial.conditions import attacked_path
from tools.studies.adversarial.config import Attack, Study, read_study
from tools.studies.adversarial.frontend import Cut
from tools.studies.adversarial.models import CAMPPLUS, SpeakerModel, load_model
from tools.studies.adversarial.speech import Pcm, read_utterance, to_pcm, write_pcm
from tools.studies.adversarial.transforms import fingerprint, load_transform
from tools.studies.adversarial.trials import Trial, read_trials
from tools.studies.cluster import Run
from tools.studies.errors import StudyError
from tools.studies.results import claim, is_whole
from voiceid.errors import AudioError
from voiceid.models.store import find_model


@dataclass(frozen=True, slots=True)
class Attacker:
    """Carries out ``attack`` on one trial at all budgets; returns why it could not, or nothing."""

    study: Study
    attack: Attack

    def __call__(self, trial: Trial) -> str:
        wanted = {e: attacked_path(self.study, self.attack, e, trial) for e in self.attack.epsilons}
        if all(map(is_whole, wanted.values())):
            return ""
        try:
            found = self._deceive(trial)
        except AudioError as error:
            return f"'{trial}': {error}"
        for epsilon, path in wanted.items():
            write_pcm(path, found[epsilon])
        return ""

    def _deceive(self, trial: Trial) -> dict[float, Pcm]:
        attack = self.attack
        name = attack.model or self.study.card
        waveform, _ = read_utterance(self.study.data / trial.test)
        pcm = to_pcm(waveform.samples)
        objective = Deception(
            _model(name),
            _reference(name, self.study.data, trial.enrolment),
            Cut.of(waveform.samples),
            trial.target,
            None if attack.transform is None else load_transform(attack.transform),
        )
        if attack.method == "bim":
            return bim(objective, pcm, attack.epsilons, attack.alpha)
        random = np.random.default_rng([attack.seed, int(trial.key, 16)])
        return {
            epsilon: pgd(
                objective, pcm, epsilon, attack.alpha, attack.steps or steps_for(epsilon, attack.alpha), random
            )
            for epsilon in attack.epsilons
        }


def attack_all(study: Study, run: Run = map) -> list[str]:
    """Carry out every attack of ``study``; returns what failed, and why.

    Raises:
        StudyError: a folder holds recordings of another attack, or a model or transform cannot be had.
    """
    failed = []
    for attack in study.attacks:
        trials = read_trials(attack.trials)
        for epsilon in attack.epsilons:
            claim(study.output / "audio" / attack.condition(epsilon), _describe(study, attack, epsilon))
        done = run(Attacker(study, attack), trials)
        failed += [r for r in tqdm(done, total=len(trials), desc=attack.name, unit="trial", disable=None) if r]
    return sorted(failed)


def report_failures(failed: Sequence[str]) -> int:
    """Print what failed; exit status 1 if anything did."""
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _describe(study: Study, attack: Attack, epsilon: float) -> dict[str, Any]:
    """What decides the recordings of one folder."""
    model = attack.model or study.card
    options = {k: v for k, v in asdict(attack).items() if k not in ("name", "trials", "epsilons")}
    weights = model if model == CAMPPLUS else find_model(model, "identity").card.sha256
    known = None if attack.transform is None else fingerprint(attack.transform)
    return {**options, "epsilon": epsilon, "data": str(study.data), "model": model, "weights": weights, "known": known}


@lru_cache(maxsize=2)
def _model(name: str) -> SpeakerModel:
    return load_model(name)


@lru_cache(maxsize=4096)
def _reference(model: str, data: Path, enrolment: tuple[str, ...]) -> Tensor:
    """Mean of the unit embeddings of the enrolment's recordings, of unit norm: (d,)."""
    embeddings = []
    for name in enrolment:
        _, utterance = read_utterance(data / name)
        with torch.no_grad():
            embeddings.append(_model(model)(torch.from_numpy(utterance.net_speech())[None])[0])
    return F.normalize(torch.stack(embeddings).mean(dim=0), dim=0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    study = read_study(arguments.study)
    if not study.attacks:
        raise StudyError(f"{arguments.study}: no attacks; add [[attacks]]")
    with cluster.workers_for(arguments) as workers:
        return report_failures(attack_all(study, workers))
