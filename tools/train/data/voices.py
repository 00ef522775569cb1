"""Banks of speech for identity training: net speech and speaker labels.

A bank is a folder: ``audio.npy`` int16 (n,) of joined utterances and ``index.json``. Speech moved to another voice
counts as other speakers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Split, read_index
from tools.train.data.other_voice import Move, other_voice
from tools.train.data.packages import WORD_PACKAGES, package_sources
from tools.train.teachers.campplus import cache_folder
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

MIN_SECONDS, MAX_SECONDS = 0.5, 12.0
WORD_SETS = ("speech-commands", "fsdd", *WORD_PACKAGES)
"""Sets of single words."""
CLIPS_A_VOICE = 5
"""Clips of one speaker that are moved to one other voice."""


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

    def samples(self, clip: Clip) -> Samples:
        """The utterance as float32 (n,)."""
        return self.audio[clip.offset : clip.offset + clip.length].astype(np.float32) / 32768


def open_bank(folder: Path) -> Bank:
    """Open the bank in ``folder``."""
    clips = tuple(Clip(**row) for row in json.loads((folder / "index.json").read_text("utf-8")))
    return Bank(np.load(folder / "audio.npy", mmap_mode="r"), clips)


def build_bank(folder: Path, sources: Iterable[tuple[Path, str, str]], *, moved: int | None = None) -> None:
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
    (folder / "index.json").write_text(json.dumps([{f: getattr(c, f) for f in Clip.__slots__} for c in clips]), "utf-8")


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
    parser.add_argument("--moved", type=int, metavar="SEED", help="give everybody another voice, by this seed")
    parser.add_argument("--split", choices=("train", "dev"), default="train", help="development speech shows progress")
    parser.add_argument("--sets", nargs="+", help="only these sets of the corpus")
    parser.add_argument("--synthetic", type=Path, help="folder of synthetic speech instead of the corpus")
    parser.add_argument("--packages", action="store_true", help="speech of Debian packages instead of the corpus")
    options = parser.parse_args()
    source = options.synthetic
    name = source.name if source else "corpus" if options.split == "train" else "corpus-dev"
    name = "packages" if options.packages else name
    name += f"-moved{options.moved}" if options.moved is not None else ""
    folder = cache_folder("identity") / "banks" / name
    if options.packages:
        sources = package_sources()
    else:
        sources = synthetic_sources(source) if source else corpus_sources(options.split)
    if options.sets:
        sources = [row for row in sources if row[2] in options.sets]
    build_bank(folder, sources, moved=options.moved)


if __name__ == "__main__":
    main()
