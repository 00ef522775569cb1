"""Phone labels at 100 Hz by forced alignment of transcripts with pocketsphinx (its US English model)."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Item
from tools.train.units_data import Speech, load_speech, training_items, transcribed_items

PHONES = tuple(
    "SIL AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()  # noqa: SIM905
)
"""The 39 phones of the CMU dictionary, and silence (which noise labels join)."""
TRANSCRIBED = (
    "ls-test-clean",
    "ls-train100-3spk",
    "ls-train100-1utt",
    "ls-fakebob-originals",
    "speech-commands",
    "picovoice-wakewords",
    "precise-community",
)

CHUNK = 40
"""Utterances between two savings."""
Labels = NDArray[np.int16]


class Aligner:
    """Forced alignment; words must be in the CMU dictionary."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        self._decoder = Decoder(lm=None, loglevel="FATAL")

    def __call__(self, samples: NDArray[np.float32], text: str) -> Labels | None:
        """Phone numbers (an index into :data:`PHONES`) a 10 ms frame: (len(samples) // 160,); None where it fails."""
        words = re.sub(r"[^a-z' ]+", " ", text.lower().replace("-", " ")).split()
        if not words or any(self._decoder.lookup_word(word) is None for word in words):
            return None
        pcm = (samples * 32767).astype("<i2").tobytes()
        try:
            self._decoder.set_align_text(" ".join(words))
            self._decode(pcm)
            if self._decoder.hyp() is None:
                return None
            self._decoder.set_alignment()
            self._decode(pcm)
            alignment = self._decoder.get_alignment()
        except RuntimeError:
            return None
        labels = np.zeros(len(samples) // 160, np.int16)
        for word in alignment:
            for phone in word:
                number = PHONES.index(phone.name) if phone.name in PHONES else 0
                labels[phone.start : phone.start + phone.duration] = number
        return labels

    def _decode(self, pcm: bytes) -> None:
        self._decoder.start_utt()
        self._decoder.process_raw(pcm, full_utt=True)
        self._decoder.end_utt()


def align(items: list[Item], speech: Speech, transcripts: dict[str, str]) -> Iterator[tuple[str, Labels]]:
    """Name and labels of each of ``items`` that aligns; ``transcripts`` fills in missing texts."""
    aligner = Aligner()
    for i, item in enumerate(items):
        text = item.text or transcripts.get(speech.names[i], "")
        if text and (found := aligner(speech.utterance(i), text)) is not None:
            yield speech.names[i], found


def main() -> None:
    """Align sets of a split and write the labels to an ``.npz`` file, resuming where it was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--split", choices=("train", "dev", "test"), default="train")
    parser.add_argument("--sets", nargs="+", default=list(TRANSCRIBED))
    parser.add_argument("--transcripts", type=Path, help="texts made by tools.train.transcripts")
    arguments = parser.parse_args()
    transcripts = json.loads(arguments.transcripts.read_text("utf-8")) if arguments.transcripts else {}
    labels: dict[str, Labels] = {}
    if arguments.output.exists():
        with np.load(arguments.output) as table:
            labels = {name: table[name] for name in table.files}
    items = training_items() if arguments.split == "train" else transcribed_items(arguments.split)
    speech = load_speech(items, arguments.cache)
    wanted = [i for i, item in enumerate(items) if item.set in arguments.sets]
    items, speech = [items[i] for i in wanted], speech.select(wanted)
    for start in tqdm(range(0, len(items), CHUNK), desc="align", unit=f"{CHUNK} utterances"):
        rest = [i for i in range(start, min(start + CHUNK, len(items))) if speech.names[i] not in labels]
        if rest:
            labels.update(align([items[i] for i in rest], speech.select(rest), transcripts))
            temporary = arguments.output.with_suffix(".tmp.npz")
            np.savez(temporary, **labels)
            temporary.replace(arguments.output)
    print(f"{len(labels)} of {len(items)} utterances aligned")


if __name__ == "__main__":
    main()
