"""Split data sets into known (train) and unknown (test) speakers, with a chosen number in both.

Reproducible: the same recordings, options and seed give the same split. A recording is never both known and unknown:
of a speaker in both parts, whole videos (tasks, where there are none) are held out for the test.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tools.studies.errors import StudyError
from tools.studies.reidentification.layouts import SHORT_NAMES, Recording, find_recordings
from tools.studies.reidentification.tasks import TaskFilter, Tasks, read_tasks
from tools.studies.results import write_rows

Amount = Literal["all", "half", "1"]
COLUMNS = ("files", "speaker_id", "train", "test", "data_type", "test_id")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Speakers to take of one data set: known, unknown, and in both (who count among either)."""

    train: int
    test: int = 0
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """What is taken of each chosen speaker.

    ``videos``: of known, unknown and overlapping speakers. ``files`` of an unknown speaker, or all with ``all_files``.
    ``separate``: each file of an unknown speaker counts as an unknown speaker.
    """

    videos: tuple[Amount, Amount, Amount] = ("all", "1", "1")
    files: int = 1
    all_files: bool = False
    separate: bool = False
    tasks: Tasks = field(default_factory=Tasks)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a split. ``test_id`` names the unknown speaker, who is ``speaker`` but where files are separate."""

    path: Path
    speaker: str
    train: bool
    test: bool
    data_type: str
    test_id: str

    def cells(self) -> tuple[str, ...]:
        return (str(self.path), self.speaker, str(self.train), str(self.test), self.data_type, self.test_id)


def split(data: Sequence[tuple[list[Recording], Sizes]], options: SplitOptions) -> list[Row]:
    """Choose speakers and recordings of each data set.

    Raises:
        StudyError: a speaker in two data sets, or fewer fitting speakers than asked for.
    """
    _check_distinct([recordings for recordings, _ in data])
    rng = np.random.default_rng(options.seed)
    rows: list[Row] = []
    for recordings, sizes in data:
        rows.extend(_split_one(recordings, sizes, options, rng))
    return rows


def split_name(data_types: Sequence[str], sizes: Sequence[Sizes], options: SplitOptions) -> str:
    """The study's name for a split: data, numbers of known, unknown and overlapping speakers, and what was taken."""
    train, test, overlap = (sum(getattr(s, part) for s in sizes) for part in ("train", "test", "overlap"))
    name = "_".join(SHORT_NAMES.get(d, d) for d in data_types)
    name += f"_tr{train}_{options.videos[0]}_te{test}_{options.videos[1]}_o{overlap}"
    name += "" if options.all_files else "_s"
    name += f"_f{options.files}" if options.files > 1 else ""
    return name + ("_diff" if options.separate else "")


def _check_distinct(data: Sequence[list[Recording]]) -> None:
    owners: dict[str, int] = {}
    for number, recordings in enumerate(data):
        for recording in recordings:
            if owners.setdefault(recording.speaker, number) != number:
                raise StudyError(
                    f"speaker {recording.speaker!r} occurs in two data sets; give the speakers names of their own"
                )


def _split_one(recordings: list[Recording], sizes: Sizes, options: SplitOptions, rng: np.random.Generator) -> list[Row]:
    people: dict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        people[recording.speaker].append(recording)
    drawn = {name: _draw(people[name], options, rng) for name in sorted(people)}
    both, unknown, known = _choose(drawn, sizes, rng)
    rows = [_row(r, train=True) for name in known for r in drawn[name].train]
    for name in both:
        rows.extend(_row(r, train=True) for r in drawn[name].kept)
    for name in (*both, *unknown):
        files = drawn[name].held if name in both else drawn[name].test
        rows.extend(_row(r, test_id=f"{name}-{i}" if options.separate else name) for i, r in enumerate(files))
    return rows


def _row(recording: Recording, *, train: bool = False, test_id: str = "") -> Row:
    return Row(recording.path, recording.speaker, train, not train, recording.data_type, test_id)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What one speaker would give in each part: ``train`` or ``test`` alone, or ``kept`` and ``held`` in both."""

    train: list[Recording]
    test: list[Recording]
    kept: list[Recording]
    held: list[Recording]


def _draw(recordings: list[Recording], options: SplitOptions, rng: np.random.Generator) -> _Drawn:
    of_train, of_test, of_both = options.videos
    tasks = options.tasks
    train = _fitting(recordings, tasks.train)
    test = _fitting(recordings, tasks.test)
    held_from = _fitting(recordings, tasks.overlap)
    alone = _of_videos(train, _some(_videos(train), of_train, rng))
    tested = _files(_of_videos(test, _some(_videos(test), of_test, rng)), options, rng)
    held = _some(_videos(held_from), "1", rng)
    kept_videos = _some([v for v in _videos(train) if v not in held], of_train, rng)
    kept = _of_videos(train, kept_videos)
    if of_both != "1":
        held = _some([v for v in _videos(held_from) if v not in kept_videos], of_both, rng)
    return _Drawn(alone, tested, kept, _files(_of_videos(held_from, held), options, rng) if kept else [])


def _choose(drawn: dict[str, _Drawn], sizes: Sizes, rng: np.random.Generator) -> tuple[list[str], list[str], list[str]]:
    """Names of speakers in both parts, of the unknown alone, of the known alone."""
    if not 0 <= sizes.overlap <= min(sizes.train, sizes.test):
        raise StudyError(
            f"{sizes.overlap} overlapping speakers of {sizes.train} known and {sizes.test} unknown; "
            "the overlap counts among both, so it cannot be larger than either"
        )
    names = [str(name) for name in rng.permutation(sorted(drawn))]
    both = _take(names, sizes.overlap, lambda n: bool(drawn[n].kept and drawn[n].held), "in both parts")
    others = [name for name in names if name not in set(both)]
    can_train = {name for name in others if drawn[name].train}
    spare = len(can_train) - (sizes.train - sizes.overlap)
    tests = [name for name in others if drawn[name].test]
    needed = [name for name in tests if name in can_train][max(0, spare) :]
    wanted = set(tests) - set(needed)
    unknown = _take(others, sizes.test - sizes.overlap, wanted.__contains__, "for the test beside the known ones")
    rest = set(others) - set(unknown)
    known = _take(others, sizes.train - sizes.overlap, lambda n: n in rest and n in can_train, "for training")
    return both, unknown, known


def _take(names: Sequence[str], number: int, fits: Callable[[str], bool], where: str) -> list[str]:
    fitting = [name for name in names if fits(name)]
    if len(fitting) < number:
        raise StudyError(
            f"{number} speakers wanted {where}, but only {len(fitting)} of {len(names)} have recordings for it"
        )
    return fitting[:number]


def _fitting(recordings: list[Recording], fits: TaskFilter) -> list[Recording]:
    return [r for r in recordings if fits(r.task)]


def _videos(recordings: list[Recording]) -> list[str]:
    return sorted({r.video for r in recordings})


def _of_videos(recordings: list[Recording], videos: Sequence[str]) -> list[Recording]:
    return [r for r in recordings if r.video in set(videos)]


def _some(videos: Sequence[str], amount: Amount, rng: np.random.Generator) -> list[str]:
    """A random part of ``videos``, at least one where there is one."""
    number = {"all": len(videos), "half": max(1, len(videos) // 2), "1": 1}[amount]
    return [str(v) for v in rng.permutation(list(videos))[:number]]


def _files(recordings: list[Recording], options: SplitOptions, rng: np.random.Generator) -> list[Recording]:
    if options.all_files:
        return recordings
    return [recordings[i] for i in rng.permutation(len(recordings))[: options.files]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input_dir", nargs="+", type=Path, required=True, help="folders of embeddings (.npy)")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for the splits (CSV)")
    add_split_arguments(parser)
    parser.add_argument("--runs", type=int, default=1, help="splits to make, each with a seed of its own (default 1)")
    parser.add_argument("--seed", type=int, default=0)


def add_split_arguments(parser: argparse.ArgumentParser) -> None:
    """Data sets, their sizes, and what is taken of a speaker."""
    parser.add_argument(
        "-d",
        "--data",
        nargs="+",
        required=True,
        metavar="TYPE",
        help="layout of each input folder: vox1, vox2, vox, vox-test, mayo-speech, "
        "or any other name for FOLDER/SPEAKER/[VIDEO/]FILE",
    )
    parser.add_argument(
        "-t", "--test_data", nargs="+", required=True, metavar="TYPE", help="data sets that give unknown speakers"
    )
    for short, name, meaning in (
        ("-x", "train_speakers", "known speakers of each data set"),
        ("-y", "test_speakers", "unknown speakers of each test data set"),
        ("-n", "overlap", "speakers of each test data set that are in both"),
    ):
        parser.add_argument(short, f"--num_{name}", nargs="+", type=int, required=True, metavar="N", help=meaning)
    parser.add_argument(
        "--tasks", type=Path, help="lines 'train PATTERN ...', 'test ...', 'overlap ...'; * and -NOT work"
    )
    parser.add_argument("--dataset", type=Path, help="CSV with file_name, speakerID and task")
    parser.add_argument("-f", "--num_files", type=int, default=1, help="files of each unknown speaker (default 1)")
    parser.add_argument("--dif_speakers", action="store_true", help="each of these files is an unknown speaker")
    parser.add_argument(
        "-v",
        "--vox_total",
        nargs=3,
        choices=("all", "half", "1"),
        default=("all", "1", "1"),
        metavar=("TRAIN", "TEST", "OVERLAP"),
        help="videos of a speaker that are taken: all, half or 1 (default: all 1 1)",
    )
    parser.add_argument("--vox_all", action="store_true", help="all files of the chosen videos are tested")


def plan(arguments: argparse.Namespace) -> tuple[list[str], list[Sizes], SplitOptions]:
    """Data sets, sizes and options that the arguments ask for.

    Raises:
        StudyError: lists of different lengths, or test data that are not among the data sets.
    """
    data_types, tests = list(arguments.data), list(arguments.test_data)
    for name, values, count in (
        ("-x", arguments.num_train_speakers, len(data_types)),
        ("-y", arguments.num_test_speakers, len(tests)),
        ("-n", arguments.num_overlap, len(tests)),
    ):
        if len(values) != count:
            raise StudyError(f"{name} has {len(values)} values; {count} are needed, one for each data set")
    if unknown := sorted(set(tests) - set(data_types)):
        raise StudyError(f"test data {unknown[0]!r} is not among the data sets (-d)")
    of_test = dict(zip(tests, zip(arguments.num_test_speakers, arguments.num_overlap, strict=True), strict=True))
    sizes = [Sizes(x, *of_test.get(d, (0, 0))) for d, x in zip(data_types, arguments.num_train_speakers, strict=True)]
    if min(arguments.num_files, arguments.runs) < 1 or arguments.seed < 0:
        raise StudyError(
            f"{arguments.num_files} files (-f), {arguments.runs} runs, seed {arguments.seed}; "
            "files and runs must be at least 1, a seed at least 0"
        )
    options = SplitOptions(
        videos=tuple(arguments.vox_total),
        files=arguments.num_files,
        all_files=arguments.vox_all,
        separate=arguments.dif_speakers,
        tasks=read_tasks(arguments.tasks) if arguments.tasks else Tasks(),
        seed=arguments.seed,
    )
    return data_types, sizes, options


def write_split(path: Path, rows: Sequence[Row]) -> None:
    """Write a split as CSV with ``COLUMNS``."""
    write_rows(path, COLUMNS, (row.cells() for row in rows))


def find_all(folders: Sequence[Path], data_types: Sequence[str], table: Path | None) -> list[list[Recording]]:
    """The recordings of each data set.

    Raises:
        StudyError: not one data type for each folder, and what :func:`find_recordings` raises.
    """
    if len(folders) != len(data_types):
        raise StudyError(f"{len(folders)} folders (-i) and {len(data_types)} data sets (-d); name one for each")
    return [find_recordings(f.resolve(), d, table=table) for f, d in zip(folders, data_types, strict=True)]


def run(arguments: argparse.Namespace) -> int:
    data_types, sizes, options = plan(arguments)
    found = find_all(arguments.input_dir, data_types, arguments.dataset)
    for number in range(arguments.runs):
        name = split_name(data_types, sizes, options) + (f"_{number}" if number else "")
        path = arguments.output_dir / f"{name}.csv"
        write_split(path, split(list(zip(found, sizes, strict=True)), replace(options, seed=options.seed + number)))
        print(path)
    return 0
