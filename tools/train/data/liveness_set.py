"""The liveness data: live speech and simulated replay of the same utterances, as the agent would see them.

``python -m tools.train.data.liveness_set --split train --pairs 3000`` writes shards of prepared audio under the
cache; it resumes where it stopped, and the same seed gives the same audio.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data import augment
from tools.train.data.corpus import TRAIN_LICENCES, Item, Split, read_index
from tools.train.data.replay import Bank, Simulated, load_bank, simulate_live, simulate_replay
from voiceid.audio import prepare, read_waveform
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

SHARD = 100
"""Pairs in one shard."""
SPLIT_CODES: dict[Split, int] = {"train": 0, "dev": 1, "test": 2}
SEEDS: dict[Split, int] = {"train": 0, "dev": 0, "test": 11}
"""Of the draws; the test's first ones were on screen when the features were chosen, so it has others now."""
SECONDS = (1.3, 6.0)
"""Range of the crop, before trimming to the speech."""
RECORDED_SHARE = 0.5
"""Share of live utterances left as recorded, save for codecs: rooms and microphones that no simulation made."""
CODEC_SHARE = 0.25
RECORDED = "-/recorded/recorded/-"
"""Scene of live speech as recorded."""


@dataclass(frozen=True, slots=True)
class Row:
    """One prepared utterance; ``live`` is the label, ``scene`` as in :class:`tools.train.data.replay.Simulated`."""

    samples: Samples
    live: bool
    speaker: str
    set: str
    scene: str


def cache_folder() -> Path:
    """``$VOICEID_CACHE/liveness``, by default under ~/.cache/voiceid."""
    base = Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid")
    return base / "liveness"


class Utterances:
    """Draws genuine speech: set by the square root of its size, then speaker, then file; short clips are joined."""

    def __init__(self, items: list[Item], split: Split) -> None:
        self._sets: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
        for item in items:
            if item.kind == "bonafide" and item.split == split and item.licence_class in TRAIN_LICENCES:
                self._sets[item.set][item.speaker].append(item)
        self._names = sorted(self._sets)
        sizes = np.array([sum(map(len, self._sets[name].values())) for name in self._names], dtype=np.float64)
        self._weights = np.sqrt(sizes) / np.sqrt(sizes).sum()

    def draw(self, rng: np.random.Generator) -> tuple[Samples, str, str]:
        """A crop of :data:`SECONDS` where the recording is that long, with its speaker and set."""
        name = self._names[int(rng.choice(len(self._names), p=self._weights))]
        speakers = sorted(self._sets[name])
        speaker = speakers[int(rng.integers(len(speakers)))]
        clips = self._sets[name][speaker]
        seconds = rng.uniform(*SECONDS)
        order = rng.permutation(len(clips))
        samples = read_waveform(clips[order[0]].path).samples
        for index in order[1:5]:
            if not speaker or len(samples) >= 2.0 * SAMPLE_RATE:
                break
            samples = np.concatenate((samples, read_waveform(clips[index].path).samples))
        length = min(len(samples), int(seconds * SAMPLE_RATE))
        start = int(rng.integers(0, len(samples) - length + 1))
        return samples[start : start + length], speaker or clips[order[0]].path.stem, name


def pair(utterances: Utterances, bank: Bank, rng: np.random.Generator) -> list[Row]:
    """One live row and one replayed row of the same words; those that the quality gate refuses are left out."""
    samples, speaker, name = utterances.draw(rng)
    if rng.random() < RECORDED_SHARE:
        live = Simulated(augment.random_codec(samples, rng) if rng.random() < CODEC_SHARE else samples, RECORDED)
    else:
        live = simulate_live(samples, bank, rng)
    rows = []
    for simulated, is_live in ((live, True), (simulate_replay(samples, bank, rng), False)):
        utterance = prepare(Waveform(simulated.samples, Source.FILE))
        if utterance.quality.usable:
            rows.append(Row(utterance.samples, is_live, speaker, name, simulated.scene))
    return rows


def build(split: Split, pairs: int, *, seed: int | None = None) -> None:
    """Write all shards of ``split`` that are not there yet; ``seed`` by default its own of :data:`SEEDS`."""
    seed = SEEDS[split] if seed is None else seed
    items = read_index()
    utterances, bank = Utterances(items, split), load_bank(items, split)
    folder = cache_folder() / "audio"
    folder.mkdir(parents=True, exist_ok=True)
    for shard in tqdm(range(-(-pairs // SHARD)), desc=f"liveness {split}", unit="shard"):
        path = folder / f"{split}-{seed}-{shard:03d}.npz"
        if path.exists():
            continue
        rows: list[Row] = []
        for index in range(shard * SHARD, (shard + 1) * SHARD):
            rng = np.random.default_rng([seed, SPLIT_CODES[split], index])
            rows += pair(utterances, bank, rng)
        _write(path, rows)


def shards(split: Split) -> list[Path]:
    """The shards of ``split`` with its seed of :data:`SEEDS`, in order.

    Raises:
        SystemExit: none was built.
    """
    paths = sorted((cache_folder() / "audio").glob(f"{split}-{SEEDS[split]}-*.npz"))
    if not paths:
        raise SystemExit(f"no liveness data: run 'python -m tools.train.data.liveness_set --split {split}' first")
    return paths


def read_shard(path: Path) -> list[Row]:
    """The rows of one shard."""
    with np.load(path, allow_pickle=False) as table:
        parts = np.split(table["audio"].astype(np.float32) / 32767, table["ends"][:-1])
        columns = (table["live"], table["speaker"], table["set"], table["scene"])
        return [
            Row(part, bool(live), str(speaker), str(name), str(scene))
            for part, live, speaker, name, scene in zip(parts, *columns, strict=True)
        ]


def _write(path: Path, rows: list[Row]) -> None:
    audio: NDArray[np.int16] = np.concatenate([np.round(r.samples * 32767).astype(np.int16) for r in rows])
    partial = path.with_name(f".{path.name}")
    np.savez(
        partial,
        audio=audio,
        ends=np.cumsum([len(r.samples) for r in rows]),
        live=np.array([r.live for r in rows]),
        speaker=np.array([r.speaker for r in rows]),
        set=np.array([r.set for r in rows]),
        scene=np.array([r.scene for r in rows]),
    )
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=sorted(SPLIT_CODES), required=True)
    parser.add_argument("--pairs", type=int, default=3000, help="utterances to simulate (default 3000)")
    parser.add_argument("--seed", type=int, help="of the draws (default: the one that training reads)")
    options = parser.parse_args()
    build(options.split, options.pairs, seed=options.seed)


if __name__ == "__main__":
    main()
