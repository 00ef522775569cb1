"""Fit the codebooks: k-means on the context network's output, under a fixed projection, and write the units model.

The projection is fitted once on training speech and is then a constant: global standardisation (``standard``), or
linear discriminants of the phones (``phones``), in which sounds of one phone lie together whoever speaks.
Projection and nearest centroid are both affine, so that each codebook becomes one linear layer and an argmax.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from tqdm import tqdm

from tools.train.networks.cpc import CPC, HOP, LEFT, RECEPTIVE, load_checkpoint
from tools.train.units_data import Speech, load_phones, load_speech, training_items
from voiceid.units.codebook import CODEBOOKS

Features = NDArray[np.float32]


def features(model: CPC, samples: NDArray[np.float32], lookahead: int) -> Features:
    """Context vectors of one utterance, as the tokenizer sees them: (len(samples) // 160, context)."""
    frames = len(samples) // HOP
    padded = np.zeros(RECEPTIVE + (frames + lookahead - 1) * HOP, np.float32)
    end = min(len(samples), len(padded) - LEFT)
    padded[LEFT : LEFT + end] = samples[:end]
    with torch.no_grad():
        context, _, _ = model(torch.from_numpy(padded)[None], padded=False)
    result: Features = context[0, lookahead:].numpy()
    return result


def collect(
    model: CPC, speech: Speech, phones: list[NDArray[np.int16] | None], lookahead: int, frames: int, seed: int
) -> tuple[Features, NDArray[np.int16]]:
    """Features and phones (-1: none) of random utterances, up to ``frames`` in all."""
    found, labels, total = [], [], 0
    for i in tqdm(np.random.default_rng(seed).permutation(len(speech)), desc="features", unit="utterance"):
        samples = speech.utterance(int(i))
        if len(samples) < 4000:
            continue
        found.append(features(model, samples, lookahead))
        known = phones[i]
        labels.append(np.full(len(found[-1]), -1, np.int16) if known is None else known[: len(found[-1])])
        total += len(found[-1])
        if total >= frames:
            break
    return np.concatenate(found), np.concatenate(labels)


def standard(x: Features) -> tuple[Features, Features]:
    """Matrix (context, context) and offset of the global standardisation."""
    scale = np.diag(1 / x.std(axis=0).clip(1e-3)).astype(np.float32)
    return scale, -x.mean(axis=0) @ scale


def discriminants(x: Features, labels: NDArray[np.int16], dimensions: int) -> tuple[Features, Features]:
    """Matrix (context, dimensions) and offset of the phones' linear discriminants (unit within-class variance)."""
    known = labels >= 0
    fit = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3).fit(x[known], labels[known])
    matrix = fit.scalings_[:, :dimensions].astype(np.float32)
    return matrix, -(x[known].mean(axis=0) @ matrix)


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
    parser.add_argument("--projection", choices=("standard", "phones"), default="standard")
    parser.add_argument("--dimensions", type=int, default=24, help="of the phones' discriminants")
    parser.add_argument("--phones", type=Path, nargs="*", default=[], help="label files of training speech")
    parser.add_argument("--frames", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, saved = load_checkpoint(arguments.checkpoint)
    lookahead = int(saved.get("lookahead", 0))
    speech = load_speech(training_items(), arguments.cache)
    phones: list[NDArray[np.int16] | None] = [None] * len(speech)
    for file in arguments.phones:
        phones = [new if new is not None else old for old, new in zip(phones, load_phones(file, speech), strict=True)]
    x, labels = collect(model, speech, phones, lookahead, arguments.frames, arguments.seed)
    if arguments.projection == "phones":
        matrix, offset = discriminants(x, labels, arguments.dimensions)
    else:
        matrix, offset = standard(x)
    projected = x @ matrix + offset
    books = {str(k): linear(matrix, offset, codebook(projected, k, arguments.seed)) for k in CODEBOOKS}
    torch.save(
        {
            "gEncoder": model.state_dict(),
            "codebooks": books,
            "lookahead": lookahead,
            "guided": bool(saved.get("guided", False)),
            "update": int(saved.get("update", 0)),
            "projection": arguments.projection,
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
