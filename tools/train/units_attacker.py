"""How much units say about who spoke: a semi-informed speaker attacker, the same on units and on mel features.

The attacker knows the tokenizer, trains on units of other speakers, and tries to verify the speakers of the test. An
utterance becomes one vector of statistics: frequencies of units and of unit pairs, or mean and deviation of log-mel
bands and of their slopes. Of those that vary most, principal components are taken, then linear discriminants of the
training speakers, then the cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from tools.train.metrics import bootstrap_ci, eer
from voiceid.features.mel import log_mel

Vectors = NDArray[np.float64]
MOST = 2000
"""Statistics that the attacker looks at."""


def unit_statistics(units: Sequence[int], codebook: int) -> Vectors:
    """Square roots of the relative frequencies of units and of pairs of neighbours: (codebook + codebook ** 2,)."""
    ids = np.asarray(units, np.int64)
    single = np.bincount(ids, minlength=codebook) / max(1, len(ids))
    pairs = np.bincount(ids[:-1] * codebook + ids[1:], minlength=codebook**2) / max(1, len(ids) - 1)
    result: Vectors = np.sqrt(np.concatenate((single, pairs)))
    return result


def mel_statistics(samples: NDArray[np.float32]) -> Vectors:
    """Mean and deviation of 64 log-mel bands and deviation of their slopes: (192,)."""
    bands = np.log(np.exp(log_mel(samples)).clip(1e-6)).astype(np.float64)
    slope = np.diff(bands, axis=0)
    return np.concatenate((bands.mean(axis=0), bands.std(axis=0), slope.std(axis=0)))


@dataclass(frozen=True, slots=True)
class Attack:
    """The attacker's trials: EER with its 95 % interval (bootstrap over speakers) and the counts."""

    eer: float
    ci95: tuple[float, float]
    n_target: int
    n_nontarget: int
    speakers: int
    training_speakers: int

    def to_dict(self) -> dict[str, object]:
        """Plain values, as reports have them."""
        return {
            "eer": self.eer,
            "ci95": list(self.ci95),
            "n_target": self.n_target,
            "n_nontarget": self.n_nontarget,
            "speakers": self.speakers,
            "training_speakers": self.training_speakers,
        }


def attack(
    training: Vectors,
    training_speakers: Sequence[str],
    test: Vectors,
    test_speakers: Sequence[str],
    *,
    enrol: int = 3,
    seed: int = 0,
) -> Attack:
    """Train on one set of speakers, then enrol each test speaker from ``enrol`` utterances and try all the others.

    Raises:
        ValueError: fewer than two speakers with more than ``enrol`` utterances.
    """
    model = _fit(training, training_speakers)
    embeddings = model.transform(test)
    embeddings = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(1e-9)
    labels = np.array(test_speakers)
    rng = np.random.default_rng(seed)
    names = [str(name) for name in np.unique(labels) if (labels == name).sum() > enrol]
    if len(names) < 2:
        raise ValueError(f"{len(names)} speakers with more than {enrol} utterances; an attack needs two")
    templates, tests = [], []
    for name in names:
        order = rng.permutation(np.flatnonzero(labels == name))
        templates.append(embeddings[order[:enrol]].mean(axis=0))
        tests.extend(order[enrol:].tolist())
    matrix = np.stack(templates)
    scores = embeddings[tests] @ (matrix / np.linalg.norm(matrix, axis=1, keepdims=True).clip(1e-9)).T
    same = labels[tests][:, None] == np.array(names)[None]
    spoken_by = np.broadcast_to(labels[tests][:, None], same.shape)
    groups = [spoken_by[same].tolist(), spoken_by[~same].tolist()]
    target, nontarget = scores[same], scores[~same]
    interval = bootstrap_ci(eer, (target, nontarget), groups)
    return Attack(
        eer(target, nontarget), interval, target.size, nontarget.size, len(names), len(set(training_speakers))
    )


def direction(vectors: Vectors, labels: Sequence[bool]) -> Callable[[Vectors], Vectors]:
    """The attacker's one direction that tells two classes apart, learnt from ``vectors``: to scores, high for True."""
    names = ["yes" if label else "no" for label in labels]
    model = _fit(vectors, names)
    found = model.transform(vectors)[:, 0]
    yes = np.array(labels, bool)
    sign = 1.0 if found[yes].mean() > found[~yes].mean() else -1.0
    return lambda others: sign * model.transform(others)[:, 0]


def _fit(vectors: Vectors, speakers: Sequence[str]) -> Pipeline:
    names, counts = np.unique(list(speakers), return_counts=True)
    known = np.isin(list(speakers), names[counts > 1])
    chosen, labels = vectors[known], np.array(speakers)[known]
    components = min(150, len(chosen) - 1, chosen.shape[1])
    model = make_pipeline(
        FunctionTransformer(_Columns(chosen)),
        StandardScaler(),
        PCA(components, whiten=True, svd_solver="randomized", random_state=0),
        LinearDiscriminantAnalysis(
            solver="eigen", shrinkage=0.1, n_components=min(60, len(set(labels)) - 1, components)
        ),
    )
    return model.fit(chosen, labels)


class _Columns:
    """The ``MOST`` statistics that vary most in training: rare pairs of units are noise."""

    def __init__(self, vectors: Vectors) -> None:
        self._columns = np.argsort(-vectors.var(axis=0), kind="stable")[:MOST]

    def __call__(self, vectors: Vectors) -> Vectors:
        return vectors[:, self._columns]
