"""Teach a trained identity network what differs within a speaker, and is therefore to count for less.

Within-class covariance normalisation (Hatch et al., Interspeech 2006): embeddings of labelled training speakers, of
random length and mostly augmented, show in which directions one voice varies; these are scaled down by a linear map,
which joins the network's last layer. ``python -m tools.train.within_speakers CHECKPOINT`` adds the map to a checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.voice_augmentation import Augmenter
from tools.train.identity import CROP_BLOCKS, Lessons, averaged_network
from tools.train.networks.deep_speaker import DeepSpeaker
from tools.train.teachers.campplus import cache_folder
from voiceid.features.mel import log_mel

BATCH = 50
SHARE = 1.0
"""How much of the mean variance is added to that of every direction."""


def levelling_map(
    embeddings: NDArray[np.float32], labels: NDArray[np.int64], share: float = SHARE
) -> NDArray[np.float32]:
    """The symmetric map (d, d) that evens out the variance within speakers of unit ``embeddings`` (n, d).

    Raises:
        SystemExit: no speaker was heard twice.
    """
    parts = [embeddings[labels == label] for label in np.unique(labels)]
    deviations = [part - part.mean(axis=0) for part in parts if len(part) > 1]
    if not deviations:
        raise SystemExit("no speaker was heard twice; take more lessons")
    spread = np.concatenate(deviations)
    variances, axes = np.linalg.eigh(spread.T @ spread / len(spread))
    mean = variances.mean()
    scales = np.sqrt(mean / (variances + share * mean))
    return (axes * scales @ axes.T).astype(np.float32)


def heard(
    network: DeepSpeaker, lessons: Lessons, count: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Unit embeddings (n, d) of up to ``count`` lessons of labelled speakers, and their labels (n,)."""
    augmenter, rng = Augmenter.from_corpus(), np.random.default_rng(seed)
    labelled = rng.permutation(np.flatnonzero(lessons.labels >= 0))[:count]
    embeddings = []
    for first in tqdm(range(0, len(labelled), BATCH), desc="embed lessons"):
        blocks = int(rng.integers(CROP_BLOCKS[0], CROP_BLOCKS[1] + 1))
        crops, _ = lessons.crops(labelled[first : first + BATCH], blocks, rng)
        features = np.stack([log_mel(crop) for crop in augmenter(crops, rng)])[..., None]
        with torch.inference_mode():
            embeddings.append(network(torch.from_numpy(features)).numpy())
    return np.concatenate(embeddings), lessons.labels[labelled]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--lessons", default="train", help="lessons made by tools.train.data.lessons")
    parser.add_argument("--count", type=int, default=6000, help="at most so many lessons")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    state: dict[str, Any] = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
    state.pop("within", None)
    lessons = Lessons(cache_folder("identity") / "lessons" / options.lessons)
    state["within"] = torch.from_numpy(
        levelling_map(*heard(averaged_network(state), lessons, options.count, options.seed))
    )
    partial = options.checkpoint.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(options.checkpoint)


if __name__ == "__main__":
    main()
