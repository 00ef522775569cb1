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
from tools.train.rank_svm import Committee, Member, block_weights, combine
from voiceid.features.void import BLOCKS, SIZE

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PAPER_BLOCKS = ("ldf", "hpf", "lpcc", "lfp")
MIN_CONFIGURATION = 50
"""Replay configurations with fewer trials cannot be a fold."""
GRID = ((1.0, 0.3), (10.0, 0.3), (10.0, 1.0), (3.0, 1.0))
"""C, and gamma times the number of columns."""


@dataclass(frozen=True, slots=True)
class Part:
    """Features (n, 97), labels (n,) bool (genuine), speakers and replay configurations ("-" if genuine) (n,)."""

    features: Floats
    genuine: NDArray[np.bool_]
    speaker: NDArray[np.str_]
    configuration: NDArray[np.str_]


Machine = tuple[tuple[str, ...], float, float]
"""Blocks of columns, C, and gamma times the number of columns."""
Recipe = tuple[Machine, ...]
"""The machines of one committee."""

PLAIN: Recipe = ((PAPER_BLOCKS, 3.0, 1.0),)
"""One machine, every column alike."""


def fit(recipe: Recipe, features: Floats, genuine: NDArray[np.bool_]) -> Committee:
    members = [Member(block_weights(SIZE, BLOCKS, dict.fromkeys(blocks, 1.0)), c, g) for blocks, c, g in recipe]
    return Committee.fit(features, genuine, members)


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


def configuration_folds(part: Part) -> list[tuple[str, Mask, Mask]]:
    """Name, training rows and test rows: a replay configuration and half of the speakers held out at a time."""
    folds = []
    names, counts = np.unique(part.configuration, return_counts=True)
    for name in names[(counts >= MIN_CONFIGURATION) & (names != "-")]:
        for half in (0, 1):
            held = np.isin(part.speaker, np.unique(part.speaker)[half::2])
            test = held & (part.genuine | (part.configuration == name))
            if (test & ~part.genuine).any():
                folds.append((str(name), ~held & (part.configuration != name), test))
    return folds


def speaker_folds(part: Part, *, folds: int = 6) -> list[tuple[str, Mask, Mask]]:
    """The same with only speakers held out, dealt by order into ``folds``; all under one name."""
    names = np.unique(part.speaker)
    held = [np.isin(part.speaker, names[fold::folds]) for fold in range(min(folds, len(names)))]
    return [("speakers", ~test, test) for test in held]


def cross_validate(part: Part, recipe: Recipe, folds: list[tuple[str, Mask, Mask]]) -> float:
    """EER over the pooled test scores of each name's folds, averaged over names."""
    fitted = [fit(recipe, part.features[train], part.genuine[train])(part.features[test]) for _, train, test in folds]
    return _pooled(part, fitted, folds)


def _pooled(part: Part, scores: list[Floats], folds: list[tuple[str, Mask, Mask]]) -> float:
    rates = []
    for name in sorted({name for name, _, _ in folds}):
        mine = [k for k, fold in enumerate(folds) if fold[0] == name]
        genuine = np.concatenate([part.genuine[folds[k][2]] for k in mine])
        rates.append(rate(np.concatenate([scores[k] for k in mine]), genuine))
    return float(np.mean(rates))


def select(part: Part, groups: tuple[tuple[str, ...], ...]) -> Recipe:
    """One machine for each of ``groups``: the C and gamma of the committee with the least training error.

    That is the mean of the EER with a configuration and speakers held out and the EER with speakers held out, so that
    neither known nor unknown replay set-ups are forgotten.
    """
    kinds = (configuration_folds(part), speaker_folds(part))
    options: list[list[Machine]] = [[(blocks, c, gamma) for c, gamma in GRID] for blocks in groups]
    scores: dict[Machine, list[list[Floats]]] = {}
    for machine in tqdm([m for group in options for m in group], desc="select", unit="machine"):
        scores[machine] = [
            [fit((machine,), part.features[a], part.genuine[a])(part.features[b]) for _, a, b in folds]
            for folds in kinds
        ]

    def error(recipe: Recipe) -> float:
        committee = [
            [combine([scores[machine][kind][k] for machine in recipe]) for k in range(len(folds))]
            for kind, folds in enumerate(kinds)
        ]
        return float(np.mean([_pooled(part, s, folds) for s, folds in zip(committee, kinds, strict=True)]))

    return min(itertools.product(*options), key=error)


def benchmark(folder: Path) -> dict[str, Any]:
    """All rows of the report: one plain machine, the committee with all 97 columns, and each block alone."""
    train, dev = load(folder, "train"), load(folder, "dev")
    both = Part(*(np.concatenate((getattr(train, f), getattr(dev, f))) for f in Part.__dataclass_fields__))
    recipes: dict[str, Recipe] = {"all 97, one plain machine": PLAIN}
    recipes["all 97, LPCC + all"] = select(train, (("lpcc",), PAPER_BLOCKS))
    recipes |= {f"{block} only": select(train, ((block,),)) for block in PAPER_BLOCKS}
    return {
        "data": "ASVspoof2017 V2 replay features (97), computed elsewhere; classifier recipe only",
        "train": {"n_genuine": int(train.genuine.sum()), "n_replay": int((~train.genuine).sum())},
        "dev": {"n_genuine": int(dev.genuine.sum()), "n_replay": int((~dev.genuine).sum())},
        "selection": "training part only: mean EER of configuration-and-speaker and of speaker hold-out",
        "rows": {name: _measure(train, dev, both, r) for name, r in tqdm(recipes.items(), desc="measure")},
    }


def _measure(train: Part, dev: Part, both: Part, recipe: Recipe) -> dict[str, Any]:
    committee = fit(recipe, train.features, train.genuine)
    scores = committee(dev.features)
    low, high = bootstrap_ci(
        eer,
        (scores[dev.genuine], scores[~dev.genuine]),
        (dev.speaker[dev.genuine], dev.speaker[~dev.genuine]),
    )
    return {
        "machines": [{"blocks": list(blocks), "c": c, "gamma": gamma} for blocks, c, gamma in recipe],
        "held_out_configuration_eer": cross_validate(train, recipe, configuration_folds(train)),
        "train_dev_eer": rate(scores, dev.genuine),
        "train_dev_ci95": [low, high],
        "speaker_grouped_eer": cross_validate(both, recipe, speaker_folds(both, folds=len(np.unique(both.speaker)))),
        "speaker_grouped_train_eer": cross_validate(train, recipe, speaker_folds(train)),
        "support_vectors": committee.vectors,
    }


def reference_folder() -> Path:
    """The features under ``$VOICEID_REFERENCE``."""
    return Path(os.environ.get("VOICEID_REFERENCE", "reference")) / "void-asvspoof2017"
