"""Simulated replay as files and an index, so that ``evaluate.py liveness`` and ``decision`` can measure it.

``python -m tools.train.data.replay_index FOLDER --pairs 400`` writes live speech and replays of the same words as FLAC,
from speakers, rooms, loudspeakers and microphones of one split.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import soundfile
from tqdm import tqdm

from tools.train.data.corpus import Split, read_index
from tools.train.data.liveness_set import SPLIT_CODES, Utterances, pair
from tools.train.data.replay import load_bank
from voiceid.types import SAMPLE_RATE

COLUMNS = ("path", "set", "speaker", "kind", "seconds", "class", "note")


def write(folder: Path, split: Split, pairs: int, *, seed: int) -> Path:
    """Write ``pairs`` live and replayed utterances and ``index.csv``; returns the index.

    ``note`` is the loudspeaker's family and, after a semicolon, the whole scene.
    """
    items = read_index()
    utterances, bank = Utterances(items, split), load_bank(items, split)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "index.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for index in tqdm(range(pairs), desc=f"replay {split}", unit="pair"):
            for row in pair(utterances, bank, np.random.default_rng([seed, SPLIT_CODES[split], index])):
                kind = "bonafide" if row.live else "replay"
                name = f"{index:05d}-{kind}.flac"
                soundfile.write(folder / name, row.samples, SAMPLE_RATE)
                loudspeaker = row.scene.split("/")[0]
                seconds = round(len(row.samples) / SAMPLE_RATE, 3)
                note = f"simulated loudspeaker {loudspeaker}; {row.scene}" if kind == "replay" else f"live; {row.scene}"
                values = (name, f"simulated-{split}", row.speaker, kind, seconds, "A", note)
                writer.writerow(dict(zip(COLUMNS, values, strict=True)))
    return folder / "index.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--split", choices=sorted(SPLIT_CODES), default="test")
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1, help="another seed than the training's test tables (11)")
    options = parser.parse_args()
    print(write(options.folder, options.split, options.pairs, seed=options.seed))


if __name__ == "__main__":
    main()
