"""The corpus index, and its split into training, development and test by speaker and by attack system.

The corpus is found through ``VOICEID_CORPUS``. A speaker is in one split only, whatever the set; unlabelled sets go
whole to one split; only licence classes A and A* may train; recorded attacks are never trained on.
"""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Split = Literal["train", "dev", "test"]

TRAIN_LICENCES = ("A", "A*")
UNLABELLED: dict[str, Split] = {
    "picovoice-wakewords": "train",
    "precise-community": "train",
    "picovoice-commands": "test",
}
"""Sets without speaker labels, placed whole so that no speaker straddles two splits."""
SALT = 48
"""Chosen once, before any training, for 11 test and 4 development speakers among the 25 of ls-test-clean."""
WITHOUT_TRIALS = ("ls-train100-1utt", "ls-train100-3spk", "speech-commands")
"""One utterance or a few single words a speaker, or too few speakers: no trials can be made, so all train."""
RELATED_NOTES = ("HGAN", "system MG", "HiFi-GAN", "VITS", "WORLD", "clb to slt")
"""Recorded attacks whose note names a kind of vocoder that trains the detector (with other weights, on other voices):
HiFi-GAN, also as the decoder of VITS; MelGAN; WORLD."""
RELATED_SETS = ("assem-vc",)
"""Sets whose attacks all end in such a vocoder."""
TEST_SETS = ("vctk-yourtts-gt", "assem-vc", "pocketsphinx")
"""Kept whole for the test: the genuine side of unseen attacks, other recording conditions."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the index."""

    path: Path
    set: str
    speaker: str
    text: str
    kind: str
    pair: str
    seconds: float
    licence_class: str
    note: str
    codec: str = ""
    sex: str = ""
    language: str = ""

    @property
    def split(self) -> Split:
        return split_of(self)

    @property
    def related_vocoder(self) -> bool:
        """Whether training heard the kind of vocoder, though never the system, that made this attack."""
        return self.set in RELATED_SETS or any(name in self.note for name in RELATED_NOTES)


def corpus_folder() -> Path:
    """``$VOICEID_CORPUS``.

    Raises:
        SystemExit: it is not set or holds no index.
    """
    folder = Path(os.environ.get("VOICEID_CORPUS", ""))
    if not (folder / "index.csv").is_file():
        raise SystemExit("set VOICEID_CORPUS to the folder that holds the corpus's index.csv")
    return folder


def read_index(index: Path | None = None) -> list[Item]:
    """All rows of ``index`` (default: the corpus's); paths become absolute, relative to the index's folder."""
    index = index or corpus_folder() / "index.csv"
    with index.open(newline="", encoding="utf-8") as file:
        return [
            Item(
                path=index.parent / row["path"],
                set=row.get("set", ""),
                speaker=row.get("speaker", ""),
                text=row.get("text", ""),
                kind=row.get("kind", "bonafide"),
                pair=row.get("pair", ""),
                seconds=float(row.get("seconds") or 0),
                licence_class=row.get("class", ""),
                note=row.get("note", ""),
                codec=row.get("codec", ""),
                sex=row.get("sex", ""),
                language=row.get("language", ""),
            )
            for row in csv.DictReader(file)
        ]


def split_of(item: Item) -> Split:
    """The split of ``item``: by its set where the set is unlabelled or reserved, else by its speaker."""
    if item.licence_class not in TRAIN_LICENCES or item.kind not in ("bonafide", "noise", "rir"):
        return "test"
    if item.set in UNLABELLED:
        return UNLABELLED[item.set]
    if item.set in WITHOUT_TRIALS:
        return "train"
    if item.set in TEST_SETS or not item.speaker:
        return hash_split(item.path.name) if item.kind in ("noise", "rir") else "test"
    return hash_split(item.speaker)


def hash_split(name: str) -> Split:
    """Split by the hash of a name: 40 % test, 15 % development, 45 % training."""
    bucket = int.from_bytes(hashlib.sha256(f"{SALT}:{name}".encode()).digest()[:4], "big") % 100
    return "test" if bucket < 40 else "dev" if bucket < 55 else "train"
