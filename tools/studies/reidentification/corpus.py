"""Lay out bona fide recordings of an index in the corpus format as SPEAKER/FILE.wav, the generic layout."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tools.studies.errors import StudyError
from tools.studies.reidentification.silence import write_audio
from tools.train.data.corpus import Item, read_index
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE


def choose(items: list[Item], sets: Sequence[str], per_speaker: int, speakers: int | None, seed: int) -> list[Item]:
    """Up to ``per_speaker`` seeded recordings of each speaker of ``sets``, or of ``speakers`` seeded ones.

    Raises:
        StudyError: no bona fide recordings of named speakers in these sets.
    """
    people: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.speaker and item.kind == "bonafide" and item.set in sets:
            people[item.speaker].append(item)
    if not people:
        raise StudyError(f"no bona fide recordings of named speakers in {', '.join(sets)}")
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.permutation(sorted(people))][:speakers]
    return [people[name][i] for name in sorted(names) for i in rng.permutation(len(people[name]))[:per_speaker]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", type=Path, help="index.csv of a corpus")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder to fill")
    parser.add_argument("--sets", nargs="+", required=True, help="sets of the index")
    parser.add_argument("--per_speaker", type=int, default=10, help="recordings of a speaker at most (default 10)")
    parser.add_argument("--speakers", type=int, help="speakers at most (default: all)")
    parser.add_argument("--seconds", type=float, help="keep so much of the start of each")
    parser.add_argument("--seed", type=int, default=0)


def lay_out(items: Sequence[Item], folder: Path, seconds: float | None, *, keep: bool = False) -> None:
    """Write the first ``seconds`` (None: all) of ``items`` into ``folder``; ``keep``: but not those that are there."""
    length = None if seconds is None else round(seconds * SAMPLE_RATE)
    for item in tqdm(items, unit="file", disable=None):
        path = folder / item.speaker / f"{item.set}-{item.path.stem}.wav"
        if not (keep and path.exists()):
            write_audio(path, read_waveform(item.path).samples[:length])


def run(arguments: argparse.Namespace) -> int:
    items = choose(
        read_index(arguments.index), arguments.sets, arguments.per_speaker, arguments.speakers, arguments.seed
    )
    lay_out(items, arguments.output_dir, arguments.seconds)
    print(f"{len(items)} recordings of {len({item.speaker for item in items})} speakers in {arguments.output_dir}")
    return 0
