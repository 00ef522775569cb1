"""Fit the codebooks: k-means on the context network's output, in a fixed space, and write the units model.

The space is fitted once on training speech and is then a constant: global standardisation (``standard``), or the
likeliness of phones (``phones``, :mod:`tools.train.networks.phone_space`), in which sounds lie together that are heard
as the same phones, whoever speaks. A linear layer names the phones; it learns them from forced alignments. Most
silence is left out, lest units tell rooms and microphones apart. The nearest centroid is affine, so that each codebook
becomes one linear layer and an argmax.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm

from tools.train.data.corpus import Item
from tools.train.networks.cpc import CPC, load_checkpoint
from tools.train.networks.mel_encoder import HOP, LEFT, RECEPTIVE
from tools.train.networks.phone_space import PhoneSpace
from tools.train.phones import PHONES
from tools.train.units_data import READ, load_phones, load_speech, training_items
from voiceid.units.codebook import CODEBOOKS

Features = NDArray[np.float32]
SILENCE = 0.1
"""Share of silent frames that k-means hears."""
NAMED = 100_000
"""Frames that the naming of phones learns from."""
ROUNDS = 2
"""In which what a voice adds is taken off."""
NEVER = -20.0
"""Bias of a phone that no alignment has."""


def contexts(model: CPC, samples: NDArray[np.float32], lookahead: int) -> Features:
    """Context vectors of one utterance as the tokenizer sees them: the first ``lookahead`` come before its first
    frame, one may come after its last."""
    frames = len(samples) // HOP
    heard = frames + lookahead + (frames + lookahead) % 2  # a context network may take two frames a step
    padded = np.zeros(RECEPTIVE + (heard - 1) * HOP, np.float32)
    end = min(len(samples), len(padded) - LEFT)
    padded[LEFT : LEFT + end] = samples[:end]
    with torch.no_grad():
        context, _, _ = model(torch.from_numpy(padded)[None], padded=False)
    result: Features = context[0].numpy()
    return result


def readers_speech(items: list[Item], seconds: float, seed: int) -> list[int]:
    """Which utterances make up to ``seconds`` of each reader of sentences."""
    taken: dict[str, float] = defaultdict(float)
    chosen = []
    for i in np.random.default_rng(seed).permutation(len(items)).tolist():
        reader = items[i].speaker or items[i].path.name
        if items[i].set.startswith(READ) and taken[reader] < seconds:
            chosen.append(i)
            taken[reader] += items[i].seconds
    return chosen


def standard(x: Features) -> tuple[Features, Features]:
    """Matrix (context, context) and offset of the global standardisation."""
    scale = np.diag(1 / x.std(axis=0).clip(1e-3)).astype(np.float32)
    return scale, -x.mean(axis=0) @ scale


def name_phones(x: Features, labels: NDArray[np.int16], seed: int) -> tuple[Features, Features]:
    """Weight (phones, context) and bias of the linear layer that names the phones of ``x``."""
    chosen = np.random.default_rng(seed).permutation(len(x))[:NAMED]
    x, labels = x[chosen], labels[chosen]
    mean, deviation = x.mean(axis=0), x.std(axis=0).clip(1e-3)
    fit = LogisticRegression(max_iter=200).fit((x - mean) / deviation, labels)
    weight, bias = np.zeros((len(PHONES), x.shape[1])), np.full(len(PHONES), NEVER)
    weight[fit.classes_] = fit.coef_ / deviation
    bias[fit.classes_] = fit.intercept_ - weight[fit.classes_] @ mean
    return weight.astype(np.float32), bias.astype(np.float32)


def phone_space(
    heard: Sequence[Features], lookahead: int, aligned: Sequence[tuple[Features, NDArray[np.int16]]], seed: int
) -> PhoneSpace:
    """Named by ``aligned`` speech; what is usual for a phone is the mean of all that is heard as it.

    ``heard`` are whole :func:`contexts`, each round's after what the rounds before it take off.
    """
    labelled = [(x[: len(labels)], labels[: len(x)]) for x, labels in aligned]
    named = name_phones(np.concatenate([x for x, _ in labelled]), np.concatenate([y for _, y in labelled]), seed)
    weight, bias = (torch.from_numpy(part) for part in named)
    usual = torch.zeros(0, len(PHONES), weight.shape[1])
    for _ in range(ROUNDS):
        space = PhoneSpace(weight, bias, usual)
        with torch.no_grad():
            moved = [space.moved(torch.from_numpy(x)[None], space.start())[0][0, lookahead:] for x in heard]
        x = torch.cat(moved)
        phones = space.likely(x).argmax(-1)
        means = [x[phones == i].mean(0) if (phones == i).any() else x.mean(0) for i in range(len(PHONES))]
        usual = torch.cat((usual, torch.stack(means)[None]))
    return PhoneSpace(weight, bias, usual)


def in_space(space: PhoneSpace, context: Features) -> Features:
    """What codebooks see of the context vectors of one utterance: (T, phones)."""
    with torch.no_grad():
        result: Features = space(torch.from_numpy(context)[None], space.start())[0][0].numpy()
    return result


def codebook(projected: Features, k: int, seed: int) -> Features:
    """Centroids (k, dimensions) by k-means."""
    fit = MiniBatchKMeans(k, batch_size=8192, n_init=3, max_iter=150, random_state=seed).fit(projected)
    return fit.cluster_centers_.astype(np.float32)


def linear(matrix: Features, offset: Features, centroids: Features) -> dict[str, torch.Tensor]:
    """Weight and bias of the scores ``y . c - |c|^2 / 2`` of y = x matrix + offset, largest at the nearest centroid."""
    weight = centroids @ matrix.T
    bias = centroids @ offset - 0.5 * np.square(centroids).sum(axis=1)
    return {"weight": torch.from_numpy(weight.astype(np.float32)), "bias": torch.from_numpy(bias.astype(np.float32))}


def main() -> None:
    """Fit codebooks of 50, 100 and 200 units on top of a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="of tools.train.units, or a published CPC_audio .pt")
    parser.add_argument("output", type=Path, help="units checkpoint for tools/export_onnx.py units")
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--phones", type=Path, help="label file (tools.train.phones): units in the space of phones")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each reader to fit to")
    parser.add_argument("--frames", type=int, default=150_000, help="that k-means takes of those")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, saved = load_checkpoint(arguments.checkpoint)
    lookahead = int(saved.get("lookahead", 0)) + model.gAR.delay
    items = training_items()
    speech = load_speech(items, arguments.cache)

    def hear(i: int) -> Features:
        return contexts(model, speech.utterance(i), lookahead)

    def frames(i: int) -> slice:
        return slice(lookahead, lookahead + len(speech.utterance(i)) // HOP)

    chosen = readers_speech(items, arguments.seconds, arguments.seed)
    heard = [hear(i) for i in tqdm(chosen, desc="context", unit="utterance")]
    space = None
    if arguments.phones is None:
        x = np.concatenate([one[frames(i)] for i, one in zip(chosen, heard, strict=True)])
        matrix, offset = standard(x)
    else:
        phones = enumerate(load_phones(arguments.phones, speech))
        known = [(i, labels) for i, labels in phones if labels is not None]
        aligned = [(hear(i)[frames(i)], labels) for i, labels in tqdm(known, desc="phones", unit="utterance")]
        space = phone_space(heard, lookahead, aligned, arguments.seed)
        x = np.concatenate([in_space(space, one)[frames(i)] for i, one in zip(chosen, heard, strict=True)])
        matrix, offset = np.eye(x.shape[1], dtype=np.float32), np.zeros(x.shape[1], np.float32)
    rng = np.random.default_rng(arguments.seed)
    loud = np.arange(len(x))
    if space is not None:
        loud = np.flatnonzero((x.argmax(axis=1) != 0) | (rng.random(len(x)) < SILENCE))
    projected = x[rng.permutation(loud)[: arguments.frames]] @ matrix + offset
    books = {str(k): linear(matrix, offset, codebook(projected, k, arguments.seed)) for k in CODEBOOKS}
    torch.save(
        {
            "gEncoder": model.state_dict(),
            "codebooks": books,
            "space": dict(space.state_dict()) if space is not None else {},
            "lookahead": lookahead,
            "guided": bool(saved.get("guided", False)),
            "taught": bool(saved.get("taught", False)),
            "update": int(saved.get("update", 0)),
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
