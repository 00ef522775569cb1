"""Lay out bona fide recordings of an index in the corpus format as SPEAKER/FILE.wav, the generic layout."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tools.evaluation.selection import read_rows
from tools.studies.errors import StudyError
from tools.studies.recordings import check_names
from tools.studies.reidentification.config import FromCorpus
from tools.studies.reidentification.silence import write_audio
from tools.studies.results import is_whole
from tools.studies.study_file import options_of
from tools.train.data.corpus import Item
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE


def corpus_index() -> Path:
    """The index of ``$VOICEID_CORPUS``.

    Raises:
        StudyError: it is not set, or holds none.
    """
    index = Path(os.environ.get("VOICEID_CORPUS", "")) / "index.csv"
    if not index.is_file():
        raise StudyError(f"{index}: no such index; set VOICEID_CORPUS to the folder of a corpus")
    return index


def choose(index: Path, options: FromCorpus) -> list[Item]:
    """The recordings that ``options`` ask for, seeded.

    Raises:
        EvaluationError: no index, or one without the columns of one.
        StudyError: no bona fide recordings of named speakers in these sets, or of a speaker who can name no folder.
    """
    people: dict[str, list[Item]] = defaultdict(list)
    for item in read_rows(index):
        if item.speaker and item.kind == "bonafide" and item.set in options.sets:
            people[item.speaker].append(item)
    if not people:
        raise StudyError(f"{index}: no bona fide recordings of named speakers in {', '.join(options.sets)}")
    check_names(people, index)
    rng = np.random.default_rng(options.seed)
    names = [str(name) for name in rng.permutation(sorted(people))][: options.speakers]
    return [
        people[name][i] for name in sorted(names) for i in rng.permutation(len(people[name]))[: options.per_speaker]
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", type=Path, help="index.csv of a corpus")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder to fill")
    parser.add_argument("--sets", nargs="+", required=True, help="sets of the index")
    parser.add_argument("--per_speaker", type=int, default=10, help="recordings of a speaker at most (default 10)")
    parser.add_argument("--speakers", type=int, help="speakers at most (default: all)")
    parser.add_argument("--seconds", type=float, help="keep so much of the start of each")
    parser.add_argument("--seed", type=int, default=0)


def lay_out(items: Sequence[Item], folder: Path, seconds: float | None, *, keep: bool = False) -> None:
    """Write the first ``seconds`` (None: all) of ``items`` into ``folder``; ``keep``: but not those that are there.

    Raises:
        StudyError: two would have one name.
    """
    length = None if seconds is None else round(seconds * SAMPLE_RATE)
    paths: dict[Path, Item] = {}
    for item in items:
        path = folder / item.speaker / f"{Path(item.set).name}-{item.path.stem}.wav"
        if (other := paths.setdefault(path, item)) is not item:
            raise StudyError(f"{other.path} and {item.path} would both become {path}; rename one, or take it out")
    for path, item in tqdm(paths.items(), unit="file", disable=None):
        if not (keep and is_whole(path)):
            write_audio(path, read_waveform(item.path).samples[:length])


def run(arguments: argparse.Namespace) -> int:
    options = options_of(FromCorpus, arguments)
    items = choose(arguments.index, options)
    lay_out(items, arguments.output_dir, options.seconds)
    print(f"{len(items)} recordings of {len({item.speaker for item in items})} speakers in {arguments.output_dir}")
    return 0
