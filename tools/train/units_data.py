"""Speech for unit discovery, prepared once and kept in one file, with phone labels where a transcript allows them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Item, Split, read_index
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError

READ = ("ls-", "libritts-")
"""How the names of sets of read sentences begin."""


@dataclass(frozen=True, slots=True)
class Speech:
    """Utterances laid end to end: ``samples`` int16 (n,), utterance i is ``samples[starts[i]:starts[i + 1]]``."""

    names: tuple[str, ...]
    samples: NDArray[np.int16]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def utterance(self, i: int) -> NDArray[np.float32]:
        """Samples of utterance ``i``: float32 (n,), levelled and trimmed."""
        part: NDArray[np.float32] = self.samples[self.starts[i] : self.starts[i + 1]].astype(np.float32) / 32768
        return part

    def select(self, indices: Sequence[int]) -> Speech:
        """The utterances ``indices``, in that order."""
        parts = [self.samples[self.starts[i] : self.starts[i + 1]] for i in indices]
        starts = np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)
        return Speech(tuple(self.names[i] for i in indices), np.concatenate(parts), starts)


def training_items() -> list[Item]:
    """The speech that units may be learnt from: split ``train`` without the telephone prompts."""
    return [i for i in read_index() if i.split == "train" and i.kind == "bonafide" and i.set != "asterisk"]


def transcribed_items(split: Split) -> list[Item]:
    """Read sentences of LibriSpeech with their text in ``split``, for measuring units against phones."""
    sets = ("ls-test-clean", "ls-fakebob-originals")
    return [i for i in read_index() if i.split == split and i.kind == "bonafide" and i.set in sets and i.text]


def load_speech(items: Sequence[Item], cache: Path) -> Speech:
    """The prepared utterances of ``items``, in order; read from ``cache`` where they were prepared before.

    Files that cannot be read are kept as empty utterances.
    """
    names = tuple(f"{item.path.parent.name}/{item.path.name}" for item in items)
    key = hashlib.sha256("\n".join(str(item.path) for item in items).encode()).hexdigest()[:12]
    file = cache / f"speech-{key}.npz"
    if not file.exists():
        parts = [_prepared(item.path) for item in tqdm(items, desc="prepare", unit="file")]
        starts = np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)
        cache.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".tmp.npz")
        np.savez(temporary, samples=np.concatenate(parts), starts=starts)
        temporary.rename(file)
    with np.load(file) as table:
        return Speech(names, table["samples"], table["starts"])


def _prepared(path: Path) -> NDArray[np.int16]:
    try:
        samples = prepare(read_waveform(path)).samples
    except AudioError:
        return np.zeros(0, np.int16)
    return (samples * 32767).round().astype(np.int16)


def load_phones(file: Path, speech: Speech) -> list[NDArray[np.int16] | None]:
    """Phone numbers at 100 Hz for each utterance of ``speech`` from ``file`` (see :mod:`tools.train.phones`)."""
    with np.load(file) as table:
        known: dict[str, NDArray[np.int16]] = {name: table[name] for name in table.files}
    return [known.get(name) for name in speech.names]


def merge_phones(files: Sequence[list[NDArray[np.int16] | None]]) -> list[NDArray[np.int16] | None]:
    """One label sequence an utterance from several files of the same speech; later files win."""
    return [next((known for known in reversed(found) if known is not None), None) for found in zip(*files, strict=True)]
