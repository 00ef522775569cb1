"""Five classifiers on triples of scores, by the VoiceID study's protocol and by an honest one.

The study draws combinations of independent scores and folds them at random, so that every score occurs on both sides of
a fold, and lets scenarios that fail twice outnumber the others. The honest protocol takes the three scores of one clip
together, shares neither a speaker nor an attack system between the sides of a fold, and makes half of each side
authentic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, precision_recall_fscore_support
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from tools.train.data.fusion_set import FusionTrial

Floats = NDArray[np.float64]
Fold = tuple[Floats, NDArray[np.bool_], Floats, NDArray[np.bool_]]
"""Training scores and labels, test scores and labels."""
FOLDS = 5
SVM_TRIALS = 6_000
"""Seeded training trials of one SVM, whose cost grows with their square; it is tested on the whole fold."""


def classifiers(seed: int) -> dict[str, Callable[[], Any]]:
    """The study's five, with scikit-learn's defaults but for what is written here."""
    return {
        "SVM": lambda: SVC(C=1.0, kernel="rbf", gamma="scale", cache_size=500),
        "MLP": lambda: MLPClassifier((16, 8), early_stopping=True, random_state=seed),
        "kNN": lambda: KNeighborsClassifier(25),
        "SGD": lambda: SGDClassifier(loss="log_loss", random_state=seed),
        "logistic regression": lambda: LogisticRegression(),
    }


def paper_folds(trials: Sequence[FusionTrial], combinations: int, seed: int) -> list[Fold]:
    """Combinations of independently drawn scores, the eight scenarios equally often, in random stratified folds."""
    llr = np.array([t.llr for t in trials])
    target = np.array([t.target for t in trials])
    attack = np.array([t.attack for t in trials])
    genuine = attack == "none"
    pools = (
        (llr[target & genuine, 0], llr[~target & genuine, 0]),
        (llr[target & genuine, 1], llr[np.isin(attack, ("spoof", "replayed-spoof")), 1]),
        (llr[target & genuine, 2], llr[np.isin(attack, ("replay", "replayed-spoof")), 2]),
    )
    rng = np.random.default_rng(seed)
    each = -(-combinations // 8)
    scores = np.concatenate(
        [
            np.stack([rng.choice(pool[fails], each) for pool, fails in zip(pools, scenario, strict=True)], axis=1)
            for scenario in product((False, True), repeat=3)
        ]
    )
    authentic = np.arange(len(scores)) < each
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(scores, authentic)
    return [(scores[a], authentic[a], scores[b], authentic[b]) for a, b in folds]


def honest_folds(trials: Sequence[FusionTrial], seed: int) -> list[Fold]:
    """Folds that share no speaker and no attack system, half of each side authentic, the rest even by scenario."""
    speakers = _deal(sorted({t.speaker for t in trials}), seed)
    systems: dict[str, int] = {}
    for attack in sorted({t.attack for t in trials} - {"none"}):
        parts = {part for t in trials if t.attack == attack for part in _parts(t)} - set(systems)
        systems |= _deal(sorted(parts), seed)

    def places(trial: FusionTrial) -> set[int]:
        people = {speakers[trial.speaker], speakers.get(trial.source, speakers[trial.speaker])}
        return people | ({systems[part] for part in _parts(trial)} if trial.attack != "none" else set())

    where = [places(trial) for trial in trials]
    folds = []
    for fold in range(FOLDS):
        inside = [t for t, place in zip(trials, where, strict=True) if place == {fold}]
        outside = [t for t, place in zip(trials, where, strict=True) if fold not in place]
        sides = [_halved(side, seed + fold) for side in (outside, inside)]
        if all(labels.any() and not labels.all() for _, labels in sides):
            folds.append((*sides[0], *sides[1]))
    return folds


def cross_validate(folds: Sequence[Fold], seed: int, label: str) -> dict[str, Any]:
    """Mean and standard deviation over the folds of every figure of every classifier.

    ``precision``, ``recall`` and ``f1`` are class-weighted means, as the study's must be (its recall equals its
    accuracy); those that end in ``_authentic`` are of the authentic class.
    """
    results: dict[str, Any] = {}
    for name, make in tqdm(classifiers(seed).items(), desc=label, unit="classifier", disable=None):
        figures = [_figures(make, fold, seed, small=name == "SVM") for fold in folds]
        results[name] = {
            key: {"mean": float(np.mean([f[key] for f in figures])), "sd": float(np.std([f[key] for f in figures]))}
            for key in figures[0]
        }
    return results


def _figures(make: Callable[[], Any], fold: Fold, seed: int, *, small: bool) -> dict[str, float]:
    x, y, test_x, test_y = fold
    if small and len(x) > SVM_TRIALS:
        rows = np.random.default_rng(seed).permutation(len(x))[:SVM_TRIALS]
        x, y = x[rows], y[rows]
    machine = make_pipeline(StandardScaler(), make()).fit(x, y)
    said = machine.predict(test_x)
    weighted = precision_recall_fscore_support(test_y, said, average="weighted", zero_division=0)
    own = precision_recall_fscore_support(test_y, said, average="binary", zero_division=0)
    return {
        "accuracy": float(accuracy_score(test_y, said)),
        "balanced_accuracy": float(balanced_accuracy_score(test_y, said)),
        **dict(zip(("precision", "recall", "f1"), map(float, weighted[:3]), strict=True)),
        **dict(zip(("precision_authentic", "recall_authentic", "f1_authentic"), map(float, own[:3]), strict=True)),
    }


def _deal(names: Sequence[str], seed: int) -> dict[str, int]:
    """A fold for every name, dealt like cards."""
    order = np.random.default_rng(seed).permutation(len(names))
    return {names[i]: position % FOLDS for position, i in enumerate(order)}


def _parts(trial: FusionTrial) -> Iterator[str]:
    """The systems behind an attack: a replayed copy has two, the copier and the loudspeaker."""
    yield from trial.system.split(" by ")


def _halved(trials: Sequence[FusionTrial], seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """As many others as authentic trials (or fewer authentic, if others are short), scenario by scenario in turn."""
    rng = np.random.default_rng(seed)
    authentic = [t for t in trials if t.authentic]
    groups: dict[str, list[FusionTrial]] = {}
    for trial in trials:
        if not trial.authentic:
            groups.setdefault(trial.scenario, []).append(trial)
    queues = [[group[i] for i in rng.permutation(len(group))] for _, group in sorted(groups.items())]
    others: list[FusionTrial] = []
    while len(others) < len(authentic) and any(queues):
        others += [queue.pop() for queue in queues if queue]
    size = min(len(authentic), len(others))
    chosen = [authentic[i] for i in rng.permutation(len(authentic))[:size]] + others[:size]
    llr = np.array([t.llr for t in chosen]).reshape(-1, 3)
    return llr, np.array([t.authentic for t in chosen], bool)
