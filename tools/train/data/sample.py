"""A small part of the corpus, for rehearsals: ``python -m tools.train.data.sample FOLDER`` writes its ``index.csv``.

Every set keeps a few speakers of each split and a few clips of each; noise and rooms stay whole. Nothing is copied:
paths become absolute.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import defaultdict
from pathlib import Path

from tools.train.data.corpus import Item, corpus_folder, read_index


def sample(items: list[Item], *, speakers: int, clips: int, seed: int) -> set[Path]:
    """Paths of at most ``clips`` of each of ``speakers`` of every set, split and kind; without names as many in all."""
    rng = random.Random(seed)
    groups: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in items:
        groups[item.set, item.split, item.kind].append(item)
    chosen: set[Path] = set()
    for (_, _, kind), members in groups.items():
        rng.shuffle(members)
        names = sorted({item.speaker for item in members})
        for name in rng.sample(names, min(speakers, len(names))):
            own = [item.path for item in members if item.speaker == name]
            whole = kind in ("noise", "rir")
            chosen.update(own if whole else own[: clips if name else speakers * clips])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the index goes; set VOICEID_CORPUS to it")
    parser.add_argument("--speakers", type=int, default=6, help="of every set and split (default: %(default)s)")
    parser.add_argument("--clips", type=int, default=40, help="of a speaker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if min(options.speakers, options.clips) < 1:
        parser.error(f"--speakers {options.speakers} --clips {options.clips}: both must be at least 1")
    corpus = corpus_folder()
    kept = sample(read_index(), speakers=options.speakers, clips=options.clips, seed=options.seed)
    with (corpus / "index.csv").open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows, fields = [row for row in reader if corpus / row["path"] in kept], reader.fieldnames or []
    for row in rows:
        row["path"] = str((corpus / row["path"]).resolve())
    index = options.folder / "index.csv"
    if index.exists() and index.samefile(corpus / "index.csv"):
        parser.error(f"{options.folder} is the corpus itself; name another folder")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        with index.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise SystemExit(f"{index} cannot be written ({error.strerror}); name another folder") from error
    print(f"{len(rows)} clips in {index}")


if __name__ == "__main__":
    main()
