"""Training data of the recogniser: transcribed speech, prepared and augmented once, and what a network hears of it.

Audio does not depend on the unit model and is prepared once, in a file a set; units belong to one unit model, by the
identity in its card, so that another model only needs them made anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data import augment
from tools.train.data.channel import OPUS_20K, through_codec
from tools.train.data.corpus import TRAIN_LICENCES, Split, read_index
from tools.train.data.other_voice import Move, other_voice
from tools.train.recognizer.files import cache_folder
from tools.train.recognizer.guidance import Guide
from tools.train.recognizer.synthetic import spoken
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.features.mel import log_mel
from voiceid.models.store import find_model
from voiceid.types import Samples, Source, Waveform
from voiceid.units.codebook import CODEBOOKS
from voiceid.units.packing import merge_runs
from voiceid.units.tokenizer import Tokenizer

MEL_BANDS = 40
READ = ("ls-test-clean", "ls-train100-3spk", "ls-fakebob-originals", "ls-train100-1utt")
WORDS = ("picovoice-wakewords", "precise-community", "speech-commands", "fsdd")
MOST_OF_A_SET = 600
"""Utterances of single words a set: more teach no more sentences."""
VARIANTS = {"read": 2, "words": 1, "synthetic": 1}
MAX_SECONDS = 20.0
Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording, and whether it is 'read', 'words' or 'synthetic'."""

    path: Path
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """Utterances laid end to end: ``samples`` int16 (n,), utterance i is ``samples[starts[i]:starts[i + 1]]``."""

    name: str
    files: tuple[str, ...]
    texts: tuple[str, ...]
    samples: NDArray[np.int16]
    starts: NDArray[np.int64]

    def utterance(self, i: int) -> Samples:
        """float32 (n,), trimmed and levelled."""
        part: Samples = self.samples[self.starts[i] : self.starts[i + 1]].astype(np.float32) / 32768
        return part


@dataclass(frozen=True, slots=True)
class Example:
    """What a network hears, units int16 (T,) or mel float16 (T, 40), the text, and phones (T,), -1 where unknown."""

    heard: NDArray[np.int16] | NDArray[np.float16]
    text: str
    phones: NDArray[np.int16] | None = None


def plain(text: str) -> str:
    """``text`` as the recogniser writes: words of a to z and apostrophes; '' where digits would need reading."""
    text = text.lower().replace("’", "'")
    if re.search(r"\d", text):
        return ""
    return " ".join(word for part in re.findall(r"[a-z']+", text) if (word := part.strip("'")))


def sources(split: Split, transcripts: dict[str, str]) -> dict[str, list[Recording]]:
    """Transcribed speech of ``split`` by set: of the corpus, licensed for training, and synthetic.

    ``transcripts`` (tools.train.transcripts) fills in texts that the corpus lacks.
    """
    found: dict[str, list[Recording]] = {}
    for item in read_index():
        text = plain(item.text or transcripts.get(f"{item.path.parent.name}/{item.path.name}", ""))
        known = item.set in READ or item.set in WORDS
        fits = item.split == split and item.kind == "bonafide" and item.licence_class in TRAIN_LICENCES
        if known and fits and text and item.seconds <= MAX_SECONDS:
            kind = "read" if item.set in READ else "words"
            found.setdefault(item.set, []).append(Recording(item.path, text, kind))
    for name, rows in found.items():
        if rows[0].kind == "words":
            order = np.random.default_rng(0).permutation(len(rows))[:MOST_OF_A_SET]
            found[name] = [rows[i] for i in sorted(order)]
    for path, row in spoken(split):
        found.setdefault(path.parent.name, []).append(Recording(path, plain(row.text), "synthetic"))
    return found


class Augmenter:
    """Other voices, rooms, microphones, noise and a codec, by chance; synthetic speech is changed more."""

    def __init__(self) -> None:
        items = [i for i in read_index() if i.kind == "noise" and i.split == "train" and i.licence_class == "A"]
        self._noises = [read_waveform(item.path).samples for item in items]

    def __call__(self, samples: Samples, kind: str, variant: int, rng: np.random.Generator) -> Samples:
        """float32 (n,) to float32 (m,); variant 0 of a real recording keeps its voice."""
        move, rest = {"synthetic": (0.7, 0.7), "read": (0.6 * (variant > 0), 0.5), "words": (0.3, 0.3)}[kind]
        if rng.random() < move:
            samples = other_voice(samples, Move.draw(rng))
        if rng.random() < 0.6 * rest:
            samples = augment.convolve(samples, augment.room_response(augment.random_room(rng), rng))
        if rng.random() < 0.7 * rest:
            samples = augment.apply_response(samples, augment.microphone_response(rng))
        if rng.random() < rest:
            samples = augment.add_noise(samples, self._noise(len(samples), rng), float(rng.uniform(8, 35)), rng)
        if rng.random() < 0.6 * rest:
            samples = through_codec(samples * (0.5 / max(1e-4, float(np.abs(samples).max()))), OPUS_20K, rng)
        return samples

    def _noise(self, length: int, rng: np.random.Generator) -> Samples:
        if rng.random() < 0.5:
            return augment.coloured_noise(length, float(rng.uniform(0, 2)), rng)
        return self._noises[int(rng.integers(len(self._noises)))]


def prepared(name: str, rows: Sequence[Recording], *, augmented: bool) -> Prepared:
    """The utterances of ``rows``, each in several variants where ``augmented``; from the cache where they are there."""
    key = hashlib.sha256(repr([(str(row.path), row.text) for row in rows]).encode()).hexdigest()[:12]
    file = cache_folder("audio") / f"{name}-{'augmented' if augmented else 'plain'}-{key}.npz"
    if not file.exists():
        augmenter = Augmenter()
        texts: list[str] = []
        files: list[str] = []
        parts: list[NDArray[np.int16]] = []
        for number, row in enumerate(tqdm(rows, desc=f"prepare {name}", mininterval=5)):
            try:
                samples = read_waveform(row.path).samples
            except AudioError:
                continue
            for variant in range(VARIANTS[row.kind] if augmented else 1):
                rng = np.random.default_rng([number, variant])
                heard = augmenter(samples, row.kind, variant, rng) if augmented else samples
                parts.append((prepare(Waveform(heard, Source.FILE)).samples * 32767).round().astype(np.int16))
                texts.append(row.text)
                files.append(f"{row.path.parent.name}/{row.path.name}")
        starts = np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)
        temporary = file.with_suffix(".tmp.npz")
        np.savez(temporary, samples=np.concatenate(parts), starts=starts, texts=np.array(texts), files=np.array(files))
        temporary.rename(file)
    with np.load(file) as table:
        names = tuple(tuple(table[part].tolist()) for part in ("files", "texts"))
        return Prepared(file.stem, *names, table["samples"], table["starts"])


def units_of(speech: Prepared, tokenizer: Tokenizer, identity: str, codebook: int) -> list[NDArray[np.int16]]:
    """A unit each 10 ms of every utterance, from the cache of this unit model where they are there."""
    file = cache_folder(f"units-{identity[:12]}") / f"{speech.name}.npz"
    if not file.exists():
        heard = [
            np.stack(list(tokenizer.encode_all(speech.utterance(i)).values()))
            for i in tqdm(range(len(speech.texts)), desc=f"units {speech.name}", mininterval=5)
        ]
        temporary = file.with_suffix(".tmp.npz")
        lengths = [one.shape[1] for one in heard]
        np.savez(temporary, units=np.concatenate(heard, axis=1).astype(np.uint8), lengths=lengths)
        temporary.rename(file)
    with np.load(file) as table:
        units, ends = table["units"][CODEBOOKS.index(codebook)], np.cumsum(table["lengths"])
    return [part.astype(np.int16) for part in np.split(units, ends[:-1])]


def merged(units: NDArray[np.int16], phones: NDArray[np.int16] | None = None) -> tuple[NDArray[np.int16], Any]:
    """Runs as ids, and the phone in the middle of each."""
    ids, lengths = merge_runs(units.tolist())
    middles = np.cumsum(lengths) - (np.array(lengths) + 1) // 2
    return np.array(ids, np.int16), None if phones is None else phones[np.minimum(middles, len(phones) - 1)]


def mel_of(samples: Samples) -> NDArray[np.float16]:
    """40 log-mel bands at 100 Hz, scaled to about one without statistics of the utterance: (T, 40)."""
    return ((np.log(np.exp(log_mel(samples, MEL_BANDS)).clip(1e-6)) + 5) / 4).astype(np.float16)


def examples(
    split: Split,
    *,
    features: str,
    codebook: int,
    units_card: str,
    transcripts: Path | None,
    augmented: bool,
    sets: Sequence[str] | None = None,
    guide: Guide | None = None,
) -> Iterator[tuple[str, list[Example]]]:
    """All examples of ``split`` by set (default: all): 'units' of the card ``units_card``, or 'mel'."""
    model = find_model(units_card, "units")
    tokenizer, identity = Tokenizer(model), str(model.card.parameters["identity"])
    texts = json.loads(transcripts.read_text("utf-8")) if transcripts else {}
    for name, rows in sources(split, texts).items():
        if sets is not None and name not in sets:
            continue
        speech = prepared(name, rows, augmented=augmented)
        units = units_of(speech, tokenizer, identity, codebook) if features == "units" else []
        found = []
        for i, text in enumerate(speech.texts):
            phones = None if guide is None else guide(speech.files[i], speech.utterance(i))
            if features == "units":
                heard, at = merged(units[i], phones)
                example = Example(heard, text, at)
            else:
                example = Example(mel_of(speech.utterance(i)), text, phones)
            if len(example.heard) > 8:
                found.append(example)
        yield name, found


def main() -> None:
    """Prepare audio and units of both splits, so that training only reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcripts", type=Path)
    parser.add_argument("--units-card", default="units")
    parser.add_argument("--sets", nargs="+", help="only these sets")
    options = parser.parse_args()
    for split in ("train", "dev"):
        common = {"features": "units", "codebook": 100, "units_card": options.units_card}
        for name, found in examples(
            split, **common, transcripts=options.transcripts, augmented=split == "train", sets=options.sets
        ):
            print(f"{split} {name}: {len(found)} utterances")


if __name__ == "__main__":
    main()
