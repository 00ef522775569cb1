"""Banks of speech for identity training: net speech, speaker labels and teacher embeddings.

A bank is a folder: ``audio.npy`` int16 (n,) of joined utterances, ``index.json``, ``teacher.npy`` float32 (N, 192).
Speech resampled by a factor other than one (which moves pitch and formants), or moved to another voice, counts as
other speakers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Split, read_index
from tools.train.data.other_voice import Move, other_voice
from tools.train.teachers.campplus import DIMENSION, CamPlusPlus, cache_folder
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

MIN_SECONDS, MAX_SECONDS = 0.5, 12.0
WORD_SETS = ("speech-commands", "fsdd")
"""Sets of single words."""
CLIPS_A_VOICE = 5
"""Clips of one speaker that are moved to one other voice."""
TEACHER_SECONDS = 4.0
"""The teacher hears at most this much of a clip ..."""
TEACHER_CLIPS = 20
"""... and at most this many clips of a labelled speaker; the others take their mean."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Where one utterance lies in the bank; ``speaker`` is empty where unknown."""

    offset: int
    length: int
    speaker: str
    set: str
    name: str


@dataclass(frozen=True, slots=True)
class Bank:
    """A bank, opened."""

    audio: NDArray[np.int16]
    clips: tuple[Clip, ...]
    teacher: NDArray[np.float32]

    def samples(self, clip: Clip) -> Samples:
        """The utterance as float32 (n,)."""
        return self.audio[clip.offset : clip.offset + clip.length].astype(np.float32) / 32768


def open_bank(folder: Path) -> Bank:
    """Open the bank in ``folder``."""
    clips = tuple(Clip(**row) for row in json.loads((folder / "index.json").read_text("utf-8")))
    return Bank(np.load(folder / "audio.npy", mmap_mode="r"), clips, np.load(folder / "teacher.npy", mmap_mode="r"))


def build_bank(
    folder: Path, sources: Iterable[tuple[Path, str, str]], *, speed: float = 1.0, moved: int | None = None
) -> None:
    """Net speech of every (path, speaker, set) of ``sources`` into ``folder``, unless the bank is there already.

    With the seed ``moved`` every :data:`CLIPS_A_VOICE` clips of a speaker, or every one of nobody known, get another
    voice. The single words of one voice are joined: no teacher places a voice by half a second.
    """
    if (folder / "index.json").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    heard: Counter[str] = Counter()
    clips: list[Clip] = []
    parts: list[NDArray[np.int16]] = []
    offset = 0
    for path, speaker, name in tqdm(sorted(sources, key=lambda row: (row[2], row[1])), desc=f"audio of {folder.name}"):
        try:
            waveform = read_waveform(path)
        except AudioError:
            continue
        samples = waveform.samples
        label = speaker
        if speed != 1.0:
            label = speaker and f"{speaker}x{speed:g}"
            samples = soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE).astype(np.float32)
        if moved is not None:
            label = speaker and f"{speaker}m{moved}.{heard[speaker] // CLIPS_A_VOICE}"
            voice = np.random.default_rng([moved, *(label or path.name).encode()])
            samples = other_voice(samples, Move.draw(voice))
        samples = prepare(Waveform(samples, Source.FILE)).net_speech()[: int(MAX_SECONDS * SAMPLE_RATE)]
        last = clips[-1] if clips else None
        room = MAX_SECONDS * SAMPLE_RATE - len(samples)
        if name in WORD_SETS and last and last.speaker == label and last.set == name and last.length <= room:
            clips[-1] = replace(last, length=last.length + len(samples))
        elif name in WORD_SETS or len(samples) >= MIN_SECONDS * SAMPLE_RATE:
            clips.append(Clip(offset, len(samples), label, name, path.name))
        else:
            continue
        heard[speaker] += 1
        parts.append((samples * 32767).astype(np.int16))
        offset += len(samples)
    clips = [clip for clip in clips if clip.length >= MIN_SECONDS * SAMPLE_RATE]
    np.save(folder / "audio.npy", np.concatenate(parts))
    np.save(folder / "teacher.npy", np.full((len(clips), DIMENSION), np.nan, np.float32))
    (folder / "index.json").write_text(json.dumps([{f: getattr(c, f) for f in Clip.__slots__} for c in clips]), "utf-8")


def embed_bank(folder: Path, device: str = "cpu", group: int = 8) -> None:
    """Fill in the teacher embeddings that are missing, by groups of like length; an interrupted run resumes."""
    teacher = CamPlusPlus(device)
    bank = open_bank(folder)
    embeddings = np.load(folder / "teacher.npy", mmap_mode="r+")
    heard: Counter[str] = Counter()
    wanted = []
    for i, clip in enumerate(bank.clips):
        heard[clip.speaker] += 1
        if (not clip.speaker or heard[clip.speaker] <= TEACHER_CLIPS) and np.isnan(embeddings[i, 0]):
            wanted.append(i)
    order = sorted(wanted, key=lambda i: -bank.clips[i].length)
    groups = [order[i : i + group] for i in range(0, len(order), group)]
    for rows in tqdm(groups, desc=f"teacher on {folder.name}", mininterval=5):
        length = min(bank.clips[rows[-1]].length, int(TEACHER_SECONDS * SAMPLE_RATE))
        with torch.autocast(device, torch.bfloat16):
            embeddings[rows] = teacher.embed_batch(np.stack([bank.samples(bank.clips[i])[:length] for i in rows]))


def corpus_sources(split: Split) -> list[tuple[Path, str, str]]:
    """(path, speaker, set) of all bona fide speech of ``split`` that may train."""
    return [
        (item.path, item.speaker, item.set)
        for item in read_index()
        if item.kind == "bonafide" and item.split == split and item.licence_class in ("A", "A*")
    ]


def synthetic_sources(folder: Path) -> list[tuple[Path, str, str]]:
    """(path, voice, set) of synthetic speech in files named ``<voice>_<number>``."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".wav", ".flac"))
    return [(path, f"{folder.name}-{path.stem.rsplit('_', 1)[0]}", folder.name) for path in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", type=float, default=1.0, help="resampling factor; not 1: other speakers")
    parser.add_argument("--moved", type=int, metavar="SEED", help="give everybody another voice, by this seed")
    parser.add_argument("--sets", nargs="+", help="only these sets of the corpus")
    parser.add_argument("--synthetic", type=Path, help="folder of synthetic speech instead of the corpus")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    source = options.synthetic
    name = (source.name if source else "corpus") + (f"-x{options.speed:g}" if options.speed != 1 else "")
    name += f"-moved{options.moved}" if options.moved is not None else ""
    folder = cache_folder("identity") / "banks" / name
    sources = synthetic_sources(source) if source else corpus_sources("train")
    if options.sets:
        sources = [row for row in sources if row[2] in options.sets]
    build_bank(folder, sources, speed=options.speed, moved=options.moved)
    embed_bank(folder, options.device)


if __name__ == "__main__":
    main()
