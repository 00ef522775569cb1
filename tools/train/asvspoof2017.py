"""The classifier recipe on real replay: VOID features of ASVspoof2017, as another implementation computed them.

Only the recipe is measured; nothing trained here ships. Settings are chosen on the training part alone, by holding out
speakers and a whole replay configuration (playback, environment, recorder) at a time; development data only reports.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.metrics import bootstrap_ci, eer
from tools.train.rank_svm import RankSvm, block_weights
from voiceid.features.void import BLOCKS, SIZE

Floats = NDArray[np.float64]

PAPER_BLOCKS = ("ldf", "hpf", "lpcc", "lfp")
MIN_CONFIGURATION = 50
"""Replay configurations with fewer trials cannot be a fold."""


@dataclass(frozen=True, slots=True)
class Part:
    """Features (n, 97), labels (n,) bool (genuine), speakers and replay configurations ("-" if genuine) (n,)."""

    features: Floats
    genuine: NDArray[np.bool_]
    speaker: NDArray[np.str_]
    configuration: NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Squared-distance weight of a column per block, C, and gamma times the sum of all weights."""

    powers: dict[str, float]
    c: float
    gamma: float

    def fit(self, features: Floats, genuine: NDArray[np.bool_]) -> RankSvm:
        weights = block_weights(SIZE, BLOCKS, self.powers)
        gamma = self.gamma / float(weights @ weights)
        return RankSvm.fit(features, genuine, weights=weights, c=self.c, gamma=gamma)


BASE = Recipe(dict.fromkeys(PAPER_BLOCKS, 1.0), c=3.0, gamma=1.0)
"""Every column alike."""


def load(folder: Path, part: str) -> Part:
    """Read the features and protocol of ``part`` ("train" or "dev").

    Raises:
        SystemExit: the files are missing or do not fit each other.
    """
    try:
        table = np.load(folder / f"feature_label_{part}.npy", allow_pickle=False)
        rows = [line.split() for line in (folder / f"protocol_{part}.txt").read_text("utf-8").splitlines()]
    except OSError as error:
        raise SystemExit(f"{error.filename}: missing; set VOICEID_REFERENCE to the reference folder") from error
    genuine = np.array([row[1] == "genuine" for row in rows])
    if len(table) != len(rows) or not np.array_equal(genuine, table[:, -1] > 0.5):
        raise SystemExit(f"{folder}: the {part} features and protocol do not fit each other")
    configuration = np.array(["-" if g else "".join(row[4:7]) for g, row in zip(genuine, rows, strict=True)])
    return Part(table[:, :-1], genuine, np.array([row[2] for row in rows]), configuration)


def rate(scores: Floats, genuine: NDArray[np.bool_]) -> float:
    return eer(scores[genuine], scores[~genuine])


def configuration_held_out(part: Part, recipe: Recipe) -> float:
    """Mean EER over replay configurations, each held out together with half of the speakers in turn."""
    rates = []
    names, counts = np.unique(part.configuration, return_counts=True)
    for name in names[(counts >= MIN_CONFIGURATION) & (names != "-")]:
        scores, labels = [], []
        for half in (0, 1):
            held = np.isin(part.speaker, np.unique(part.speaker)[half::2])
            test = held & (part.genuine | (part.configuration == name))
            train = ~held & (part.configuration != name)
            if not (test & ~part.genuine).any():
                continue
            scores.append(recipe.fit(part.features[train], part.genuine[train])(part.features[test]))
            labels.append(part.genuine[test])
        rates.append(rate(np.concatenate(scores), np.concatenate(labels)))
    return float(np.mean(rates))


def speaker_grouped(part: Part, recipe: Recipe, *, folds: int = 10) -> Floats:
    """Scores (n,) of every row by a machine that saw no row of its speaker; speakers dealt into ``folds`` by order."""
    scores = np.zeros(len(part.genuine))
    names = np.unique(part.speaker)
    for fold in range(min(folds, len(names))):
        held = np.isin(part.speaker, names[fold::folds])
        scores[held] = recipe.fit(part.features[~held], part.genuine[~held])(part.features[held])
    return scores


def candidates(blocks: tuple[str, ...]) -> list[Recipe]:
    """The grid: the weight of the other blocks beside LPCC, C and gamma."""
    others = (0.01, 0.03, 0.1, 1.0) if len(blocks) > 1 and "lpcc" in blocks else (1.0,)
    return [
        Recipe({b: 1.0 if b == "lpcc" else other for b in blocks}, c=c, gamma=gamma)
        for other, c, gamma in itertools.product(others, (0.3, 1.0, 10.0), (0.3, 1.0))
    ]


def select(part: Part, blocks: tuple[str, ...]) -> tuple[Recipe, float]:
    """The recipe on ``blocks`` with the least configuration-held-out EER, and that EER."""
    grid = candidates(blocks)
    rates = [configuration_held_out(part, r) for r in tqdm(grid, desc="+".join(blocks), unit="recipe")]
    best = int(np.argmin(rates))
    return grid[best], rates[best]


def benchmark(folder: Path) -> dict[str, Any]:
    """All rows of the report: the plain recipe, the selected one on all 97 columns, and on each block alone."""
    train, dev = load(folder, "train"), load(folder, "dev")
    both = Part(*(np.concatenate((getattr(train, f), getattr(dev, f))) for f in Part.__dataclass_fields__))
    rows = {"all 97, equal weights": (BASE, configuration_held_out(train, BASE))}
    rows["all 97, selected"] = select(train, PAPER_BLOCKS)
    rows |= {f"{block} only": select(train, (block,)) for block in PAPER_BLOCKS}
    return {
        "data": "ASVspoof2017 V2 replay features (97), computed elsewhere; classifier recipe only",
        "train": {"n_genuine": int(train.genuine.sum()), "n_replay": int((~train.genuine).sum())},
        "dev": {"n_genuine": int(dev.genuine.sum()), "n_replay": int((~dev.genuine).sum())},
        "selection": "least mean EER on the training part, holding out a replay configuration and half the speakers",
        "rows": {name: _measure(train, dev, both, *chosen) for name, chosen in rows.items()},
    }


def _measure(train: Part, dev: Part, both: Part, recipe: Recipe, selection: float) -> dict[str, Any]:
    machine = recipe.fit(train.features, train.genuine)
    scores = machine(dev.features)
    low, high = bootstrap_ci(
        eer,
        (scores[dev.genuine], scores[~dev.genuine]),
        (dev.speaker[dev.genuine], dev.speaker[~dev.genuine]),
    )
    return {
        "powers": recipe.powers,
        "c": recipe.c,
        "gamma": recipe.gamma,
        "held_out_configuration_eer": selection,
        "train_dev_eer": rate(scores, dev.genuine),
        "train_dev_ci95": [low, high],
        "speaker_grouped_eer": rate(speaker_grouped(both, recipe), both.genuine),
        "speaker_grouped_train_eer": rate(speaker_grouped(train, recipe), train.genuine),
        "support_vectors": len(machine.dual),
    }


def reference_folder() -> Path:
    """The features under ``$VOICEID_REFERENCE``."""
    return Path(os.environ.get("VOICEID_REFERENCE", "reference")) / "void-asvspoof2017"
