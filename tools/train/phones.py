"""Phone labels at 100 Hz by forced alignment of transcripts with pocketsphinx (its US English model)."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Item, read_index
from voiceid.audio import prepare, read_waveform

PHONES = (
    "SIL AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"
).split()
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


class Aligner:
    """Forced alignment; words must be in the CMU dictionary."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        self._decoder = Decoder(lm=None, loglevel="FATAL")

    def __call__(self, samples: NDArray[np.float32], text: str) -> NDArray[np.int16] | None:
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


def align(items: list[Item], transcripts: dict[str, str], progress: bool = True) -> dict[str, NDArray[np.int16]]:
    """Labels of those ``items`` that align, by ``folder/file``; ``transcripts`` fills in missing texts."""
    aligner, labels = Aligner(), {}
    for item in tqdm(items, desc="align", unit="file", disable=not progress):
        name = f"{item.path.parent.name}/{item.path.name}"
        text = item.text or transcripts.get(name, "")
        if text and (found := aligner(prepare(read_waveform(item.path)).samples, text)) is not None:
            labels[name] = found
    return labels


def main() -> None:
    """Align a split of the corpus and write the labels to an ``.npz`` file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--split", choices=("train", "dev", "test"), default="train")
    parser.add_argument("--sets", nargs="+", default=list(TRANSCRIBED))
    parser.add_argument("--transcripts", type=Path, help="texts made by tools.train.transcripts")
    arguments = parser.parse_args()
    transcripts = json.loads(arguments.transcripts.read_text("utf-8")) if arguments.transcripts else {}
    items = [i for i in read_index() if i.set in arguments.sets and i.split == arguments.split and i.kind == "bonafide"]
    labels = align(items, transcripts)
    print(f"{len(labels)} of {len(items)} utterances aligned")
    np.savez(arguments.output, **labels)


if __name__ == "__main__":
    main()
