"""Teach a trained identity network what differs within a speaker, and is therefore to count for less.

Within-class covariance normalisation (Hatch et al., Interspeech 2006): embeddings of stretches of training speakers, of
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

from tools.train.data.lessons import BLOCK, Pool, Voice
from tools.train.data.voice_augmentation import Augmenter
from tools.train.data.voices import open_bank
from tools.train.identity import CROP_BLOCKS, averaged_network
from tools.train.networks.deep_speaker import DeepSpeaker
from tools.train.teachers.campplus import cache_folder
from voiceid.features.mel import log_mel

CROPS = 6
"""Stretches of each voice."""
MIN_CLIPS = 4
"""A voice with fewer clips says little about how it varies."""
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
    network: DeepSpeaker, pool: Pool, voices: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Unit embeddings (n, d) of stretches of ``voices`` speakers, drawn with repetition, and whose draw each is (n,).

    Raises:
        SystemExit: nobody has enough clips.
    """
    known = [name for name, clips in pool.speakers.items() if len(clips) >= MIN_CLIPS]
    if not known:
        raise SystemExit(f"no speaker has {MIN_CLIPS} clips; take further banks")
    augmenter = Augmenter.from_corpus()
    chosen = rng.choice(known, voices)
    embeddings = []
    for name in tqdm(chosen, desc="voices"):
        voice = Voice(pool.speakers[str(name)], str(name), 1.0)
        length = BLOCK * int(rng.integers(CROP_BLOCKS[0], CROP_BLOCKS[1] + 1))
        crops = np.stack([pool.stretch(voice, length, rng) for _ in range(CROPS)])
        features = np.stack([log_mel(crop) for crop in augmenter(crops, rng)])[..., None]
        with torch.inference_mode():
            embeddings.append(network(torch.from_numpy(features)).numpy())
    return np.concatenate(embeddings), np.repeat(np.arange(len(chosen)), CROPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--banks", nargs="+", default=["corpus"], help="banks made by tools.train.data.voices")
    parser.add_argument("--voices", type=int, default=600, help="how often a speaker is drawn")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    state: dict[str, Any] = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
    state.pop("within", None)
    pool = Pool.of([open_bank(cache_folder("identity") / "banks" / name) for name in options.banks])
    rng = np.random.default_rng(options.seed)
    state["within"] = torch.from_numpy(levelling_map(*heard(averaged_network(state), pool, options.voices, rng)))
    partial = options.checkpoint.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(options.checkpoint)


if __name__ == "__main__":
    main()
