"""Fit the codebooks: k-means on the context network's output, under a fixed projection, and write the units model.

The projection is fitted once on training speech and is then a constant: global standardisation (``standard``), or
directions that tell phones apart and not speakers (``phones``), in which sounds of one phone lie together whoever
speaks; phones are then those that the guided network itself hears, and most silence is left out, lest units tell rooms
and microphones apart. Projection and nearest centroid are both affine, so that each codebook becomes one linear layer
and an argmax.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.cluster import MiniBatchKMeans
from tqdm import tqdm

from tools.train.data.corpus import Item
from tools.train.networks.cpc import CPC, load_checkpoint
from tools.train.networks.mel_encoder import HOP, LEFT, RECEPTIVE
from tools.train.units_data import READ, Speech, load_speech, training_items
from voiceid.units.codebook import CODEBOOKS

Features = NDArray[np.float32]
SILENCE = 0.1
"""Share of silent frames that k-means hears."""


def features(model: CPC, samples: NDArray[np.float32], lookahead: int) -> Features:
    """Context vectors of one utterance, as the tokenizer sees them: (len(samples) // 160, dimensions)."""
    frames = len(samples) // HOP
    heard = frames + lookahead + (frames + lookahead) % 2  # a context network may take two frames a step
    padded = np.zeros(RECEPTIVE + (heard - 1) * HOP, np.float32)
    end = min(len(samples), len(padded) - LEFT)
    padded[LEFT : LEFT + end] = samples[:end]
    with torch.no_grad():
        context, _, _ = model(torch.from_numpy(padded)[None], padded=False)
    result: Features = context[0, lookahead : lookahead + frames].numpy()
    return result


def collect(
    model: CPC, items: list[Item], speech: Speech, lookahead: int, seconds: float, seed: int
) -> tuple[Features, NDArray[np.int64]]:
    """Features of up to ``seconds`` of each reader of sentences, and the readers' numbers."""
    readers = np.unique([item.speaker or item.path.name for item in items], return_inverse=True)[1]
    taken = np.zeros(len(items))
    found, numbers = [], []
    for i in tqdm(np.random.default_rng(seed).permutation(len(items)), desc="features", unit="utterance"):
        if items[i].set.startswith(READ) and taken[readers[i]] < seconds:
            found.append(features(model, speech.utterance(int(i)), lookahead))
            numbers.append(np.full(len(found[-1]), readers[i]))
            taken[readers[i]] += items[i].seconds
    return np.concatenate(found), np.concatenate(numbers)


def standard(x: Features) -> tuple[Features, Features]:
    """Matrix (context, context) and offset of the global standardisation."""
    scale = np.diag(1 / x.std(axis=0).clip(1e-3)).astype(np.float32)
    return scale, -x.mean(axis=0) @ scale


def discriminants(
    x: Features, labels: NDArray[np.int64], speakers: NDArray[np.int64], dimensions: int, strictness: float
) -> tuple[Features, Features]:
    """Matrix (context, dimensions) and offset of directions that tell phones apart and not speakers.

    Linear discriminants of the phones, where to the scatter within a phone is added ``strictness`` times the scatter of
    the speakers' means of it: what differs between speakers who say the same (as in within-class covariance
    normalisation: Hatch et al., Interspeech 2006).
    """
    size = x.shape[1]
    mean = x.mean(axis=0)
    between, within, voices = np.zeros((3, size, size))
    for phone in np.unique(labels):
        spoken, by = x[labels == phone], speakers[labels == phone]
        middle = spoken.mean(axis=0)
        between += len(spoken) * np.outer(middle - mean, middle - mean)
        within += (spoken - middle).T @ (spoken - middle)
        counts = np.bincount(by)
        sums = np.zeros((len(counts), size))
        np.add.at(sums, by, spoken - middle)
        often = counts >= 5
        voices += (sums[often].T / counts[often]) @ sums[often]
    spread = (within + strictness * voices) / len(x)
    spread += 1e-3 * np.trace(spread) / size * np.eye(size)
    _, vectors = eigh(between / len(x), spread)
    matrix = vectors[:, ::-1][:, :dimensions].astype(np.float32)
    return matrix, -(mean @ matrix)


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
    parser.add_argument("--dimensions", type=int, default=20, help="of the phones' discriminants")
    parser.add_argument("--strictness", type=float, default=30.0, help="about directions in which speakers differ")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each reader to fit to")
    parser.add_argument("--frames", type=int, default=150_000, help="that k-means takes of those")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, saved = load_checkpoint(arguments.checkpoint)
    lookahead = int(saved.get("lookahead", 0)) + model.gAR.delay
    items = training_items()
    x, readers = collect(
        model, items, load_speech(items, arguments.cache), lookahead, arguments.seconds, arguments.seed
    )
    rng = np.random.default_rng(arguments.seed)
    if arguments.projection == "phones":
        head = saved["phoneHead"]
        labels = (x @ head["weight"].numpy().T + head["bias"].numpy()).argmax(axis=1)
        matrix, offset = discriminants(x, labels, readers, arguments.dimensions, arguments.strictness)
        heard = np.flatnonzero((labels != 0) | (rng.random(len(x)) < SILENCE))
    else:
        matrix, offset = standard(x)
        heard = np.arange(len(x))
    projected = x[rng.permutation(heard)[: arguments.frames]] @ matrix + offset
    books = {str(k): linear(matrix, offset, codebook(projected, k, arguments.seed)) for k in CODEBOOKS}
    torch.save(
        {
            "gEncoder": model.state_dict(),
            "codebooks": books,
            "lookahead": lookahead,
            "guided": bool(saved.get("guided", False)),
            "taught": bool(saved.get("taught", False)),
            "update": int(saved.get("update", 0)),
            "projection": arguments.projection,
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
