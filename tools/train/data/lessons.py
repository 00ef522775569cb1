"""What the teacher makes of crops of speech, frame by frame: the lessons an identity model learns from.

One embedding of an utterance says little about the network that made it, and a student can learn it by heart: it knew
new voices of recordings that it had heard (cosine to the teacher .79), but not new recordings (.53). Teacher and
student are functions, to be compared on far more than was recorded (Beyer et al., "Knowledge distillation: a good
teacher is patient and consistent", CVPR 2022). So most crops are put together: of pieces of one voice in any order, of
two voices one after the other or at once, at another speed than they were spoken (which makes them another speaker's),
seldom backwards. A lesson holds a crop and what the teacher computes from this very crop: its embedding and what it
pools, 512 channels averaged over :data:`BLOCK_SECONDS`. A third of the crops then pass a codec, which the student has
to listen through.

A folder of lessons holds shards ``000.audio.npy`` int16 (n, samples), ``.frames.npy`` float16 (n, blocks, 512),
``.teacher.npy`` float32 (n, 192) and ``.label.npy`` str (n,): the speaker, empty where unknown or changed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.channel import OTHER_CODECS, mixed, through_codec
from tools.train.data.voices import Bank, open_bank
from tools.train.teachers.campplus import CamPlusPlus, cache_folder
from voiceid.types import SAMPLE_RATE

BLOCK_SECONDS = 0.16
"""The student pools one frame for so many seconds."""
BLOCK = int(BLOCK_SECONDS * SAMPLE_RATE)
BLOCKS = 18
SAMPLES = BLOCKS * BLOCK
"""Samples of a crop."""
SHARD = 512
BANKS = "banks.json"
"""Beside the shards: the banks that they were made from."""
SPEEDS = (0.82, 1.22)
SPED = 0.6
"""Share of voices at another speed."""
ARRANGEMENTS = {"stretch": 0.3, "pieces": 0.35, "in turn": 0.15, "at once": 0.2}
"""Shares of crops of one stretch, of pieces of one voice, of two voices in turn and of two voices at once."""
PIECE_SECONDS = (0.3, 1.1)
FADE = 160
"""Samples over which one piece fades into the next."""
LOUDER_DB = (0.0, 15.0)
"""By how much the first of two voices at once is the louder."""
BACKWARDS = 0.1
CODED = 0.33
"""Share of crops that pass a codec behind the teacher's back."""
FULL_CLIPS = 4
"""A speaker with more clips is drawn no more often than with these: voices count, not recordings."""


@dataclass(frozen=True, slots=True)
class Voice:
    """The clips of one voice and the speed at which they are heard."""

    clips: list[tuple[int, int]]
    label: str
    speed: float


@dataclass(frozen=True, slots=True)
class Pool:
    """The clips of several banks, how often each is drawn, and the clips of each known speaker."""

    banks: list[Bank]
    entries: list[tuple[int, int]]
    weights: NDArray[np.float64]
    speakers: dict[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, banks: list[Bank]) -> Pool:
        """All clips, by duration and voice."""
        entries = [(b, c) for b, bank in enumerate(banks) for c in range(len(bank.clips))]
        names = np.array([banks[b].clips[c].speaker for b, c in entries])
        seconds = np.array([banks[b].clips[c].length for b, c in entries]) / SAMPLE_RATE
        weights = np.clip(seconds, 0.7, 6.0)
        _, voice, clips = np.unique(names, return_inverse=True, return_counts=True)
        weights[names != ""] *= np.minimum(1, FULL_CLIPS / clips[voice])[names != ""]
        speakers: dict[str, list[tuple[int, int]]] = {}
        for name, entry in zip(names, entries, strict=True):
            if name:
                speakers.setdefault(str(name), []).append(entry)
        return cls(banks, entries, weights / weights.sum(), speakers)

    def crop(self, rng: np.random.Generator) -> tuple[NDArray[np.float32], str]:
        """A crop float32 (SAMPLES,) and its speaker's label, empty if nobody speaks so."""
        arrangement = rng.choice(list(ARRANGEMENTS), p=list(ARRANGEMENTS.values()))
        first = self._voice(rng)
        if arrangement == "stretch":
            samples, label = self.stretch(first, SAMPLES, rng), first.label
        elif arrangement == "pieces":
            samples, label = self._pieces([first], rng), first.label
        elif arrangement == "in turn":
            samples, label = self._pieces([first, self._voice(rng)], rng), ""
        else:
            loud, soft = (self.stretch(voice, SAMPLES, rng) for voice in (first, self._voice(rng)))
            samples, label = mixed(loud, soft, float(rng.uniform(*LOUDER_DB))), ""
        if rng.random() < BACKWARDS:
            return samples[::-1].copy(), ""
        return samples, label

    def _voice(self, rng: np.random.Generator) -> Voice:
        entry = self.entries[rng.choice(len(self.entries), p=self.weights)]
        label = self.banks[entry[0]].clips[entry[1]].speaker
        clips = self.speakers.get(label, [entry])
        speed = rng.uniform(*SPEEDS) if rng.random() < SPED else 1.0
        return Voice(clips, label if speed == 1.0 else "", speed)

    def _pieces(self, voices: list[Voice], rng: np.random.Generator) -> NDArray[np.float32]:
        """Pieces of ``voices`` in turn, faded into one another: float32 (SAMPLES,)."""
        fade = np.linspace(0, 1, FADE, dtype=np.float32)
        samples = np.zeros(0, np.float32)
        turn = 0
        while len(samples) < SAMPLES:
            length = int(rng.uniform(*PIECE_SECONDS) * SAMPLE_RATE)
            piece = self.stretch(voices[turn % len(voices)], length, rng)
            if turn:
                piece[:FADE] = piece[:FADE] * fade + samples[-FADE:] * (1 - fade)
                samples = samples[:-FADE]
            samples = np.concatenate((samples, piece))
            turn += 1
        return samples[:SAMPLES]

    def stretch(self, voice: Voice, length: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """A stretch of a clip of ``voice``: float32 (length,); a short clip repeats."""
        bank, index = voice.clips[rng.integers(len(voice.clips))]
        clip = self.banks[bank].clips[index]
        spoken = int(np.ceil(length * voice.speed)) + 1
        start = clip.offset + int(rng.integers(max(1, clip.length - spoken + 1)))
        part = self.banks[bank].audio[start : start + min(spoken, clip.length)].astype(np.float32) / 32768
        samples = np.resize(part, spoken)
        if voice.speed != 1.0:
            samples = soxr.resample(samples, SAMPLE_RATE * voice.speed, SAMPLE_RATE).astype(np.float32)
        return np.resize(samples, length)


def make_shard(folder: Path, number: int, pool: Pool, teacher: CamPlusPlus, *, seed: int, group: int = 16) -> None:
    """Write shard ``number``, unless it is there."""
    if (folder / f"{number:03d}.label.npy").is_file():
        return
    rng = np.random.default_rng((seed, number))
    crops, labels = zip(*(pool.crop(rng) for _ in range(SHARD)), strict=True)
    heard = [teacher.frames_batch(np.stack(crops[i : i + group])) for i in range(0, SHARD, group)]
    frames = np.concatenate([frames for _, frames in heard])
    padded = np.pad(frames, ((0, 0), (0, max(0, 8 * BLOCKS - frames.shape[1])), (0, 0)), mode="edge")
    blocks = padded[:, : 8 * BLOCKS].reshape(SHARD, BLOCKS, 8, -1).mean(axis=2)
    coded = [
        through_codec(crop, OTHER_CODECS[rng.integers(len(OTHER_CODECS))], rng) if rng.random() < CODED else crop
        for crop in crops
    ]
    parts = {
        "audio": (np.clip(np.stack(coded), -1, 1) * 32767).astype(np.int16),
        "frames": blocks.astype(np.float16),
        "teacher": np.concatenate([embeddings for embeddings, _ in heard]),
        "label": np.array(labels),
    }
    for name, array in parts.items():
        np.save(folder / f"{number:03d}.{name}.npy", array)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="lessons go to $VOICEID_CACHE/identity/lessons/<name>")
    parser.add_argument("--banks", nargs="+", required=True, help="banks made by tools.train.data.voices")
    parser.add_argument("--shards", type=int, default=80, help=f"of {SHARD} crops")
    parser.add_argument("--first", type=int, default=0, help="number of the first shard to make")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    home = cache_folder("identity")
    folder = home / "lessons" / options.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BANKS).write_text(json.dumps(options.banks), "utf-8")
    pool = Pool.of([open_bank(home / "banks" / name) for name in options.banks])
    teacher = CamPlusPlus(options.device)
    for number in tqdm(range(options.first, options.shards), desc=f"lessons {options.name}", mininterval=10):
        make_shard(folder, number, pool, teacher, seed=options.seed)


if __name__ == "__main__":
    main()
