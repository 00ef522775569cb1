"""Make a list of trials from an index in the corpus format: genuine ones, or those of attacks recorded by others.

Every speaker is enrolled from the first recordings in a seeded order; the others are tried. Recorded attacks are tried
against the person their note names as the attack's target (label 0), else against the person who speaks (label 1).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tools.evaluation.options import EvaluationError
from tools.evaluation.selection import read_rows
from tools.evaluation.trials import enrolment_order, same_recording
from tools.studies.adversarial.config import Listing
from tools.studies.adversarial.trials import Trial, write_trials
from tools.studies.errors import StudyError
from tools.studies.recordings import check_copies, check_owners
from tools.studies.study_file import options_of
from tools.train.data.corpus import Item

INDEX = "index.csv"
VICTIM = re.compile(r"attack target (\w+)")


def by_speaker(items: Sequence[Item], seed: int) -> dict[str, list[Item]]:
    """Each speaker's recordings in the seeded order of enrolment."""
    people: dict[str, list[Item]] = defaultdict(list)
    for item in {item.path: item for item in items}.values():  # a row that is there twice is one recording
        if item.speaker:
            people[item.speaker].append(item)
    return {name: enrolment_order(own, seed) for name, own in sorted(people.items())}


def genuine_trials(
    people: dict[str, list[Item]], root: Path, *, enrolment: int, tests: int, impostors: int, seed: int
) -> list[Trial]:
    """``tests`` recordings of each speaker, each against its speaker and ``impostors`` other, seeded templates.

    Raises:
        StudyError: fewer than two speakers have recordings enough.
    """
    enough = {name: own for name, own in people.items() if len(own) > enrolment}
    if len(enough) < 2:
        raise StudyError(f"{len(enough)} speakers have more than {enrolment} recordings; trials need two")
    rng = np.random.default_rng(seed)
    trials = []
    for name, own in enough.items():
        others = [other for other in enough if other != name]
        for item in own[enrolment : enrolment + tests]:
            drawn = sorted(rng.permutation(len(others))[:impostors])
            for speaker in (name, *(others[i] for i in drawn)):
                template = enough[speaker][:enrolment]
                if not any(same_recording(one, item) for one in template):
                    trials.append(_trial(speaker == name, template, item, root))
    return trials


def recorded_trials(
    attacks: Sequence[Item], people: dict[str, list[Item]], root: Path, enrolment: int
) -> tuple[list[Trial], int]:
    """One trial for each attack whose claimed speaker can be enrolled, and how many could not."""
    trials = []
    for item in attacks:
        found = VICTIM.search(item.note)
        claimed = found[1] if found else item.speaker
        original = Path(item.pair).name
        template = [one for one in people.get(claimed, []) if one.path.name != original][:enrolment]
        if len(template) == enrolment:
            trials.append(_trial(claimed == item.speaker, template, item, root))
    return trials, len(attacks) - len(trials)


def balanced(trials: Sequence[Trial], limit: int | None, seed: int) -> list[Trial]:
    """At most ``limit`` target and ``limit`` non-target trials, seeded, in their order."""
    rng = np.random.default_rng(seed)
    kept: set[int] = set()
    for target in (True, False):
        rows = [i for i, trial in enumerate(trials) if trial.target is target]
        kept |= {rows[i] for i in rng.permutation(len(rows))[:limit]}
    return [trials[i] for i in sorted(kept)]


def _trial(target: bool, template: Sequence[Item], item: Item, root: Path) -> Trial:
    """Named as seen from ``root``; what lies elsewhere, which an index may name too, by its whole path."""
    names = [
        (one.path.relative_to(root) if one.path.is_relative_to(root) else one.path.absolute()).as_posix()
        for one in (*template, item)
    ]
    return Trial(target, tuple(names[:-1]), names[-1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", type=Path, help="index.csv of a corpus; paths in the list are relative to its folder")
    parser.add_argument("-o", "--output", dest="file", type=Path, required=True, help="list to write")
    parser.add_argument("--sets", nargs="+", required=True, help="sets whose bona fide recordings enrol and are tried")
    parser.add_argument("--recorded", nargs="+", metavar="SET", help="try the adversarial recordings of these instead")
    parser.add_argument("--split", choices=("train", "dev", "test"), help="only people of this split of the corpus")
    parser.add_argument("--enrolment", type=int, default=3, help="recordings of a template (default 3)")
    parser.add_argument("--tests", type=int, default=2, help="recordings of a speaker that are tried (default 2)")
    parser.add_argument("--impostors", type=int, default=1, help="other templates each is tried against (default 1)")
    parser.add_argument("--only", choices=("target", "nontarget"), help="leave the other kind of trial out")
    parser.add_argument("--limit", type=int, help="keep at most so many target and so many non-target trials")
    parser.add_argument("--max_seconds", type=float, help="try no longer recordings")
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace) -> int:
    make_list(arguments.index, options_of(Listing, arguments))
    return 0


def make_list(index: Path, options: Listing) -> None:
    """Write the list that ``options`` describe, from ``index``.

    Raises:
        StudyError: no such index, no trials in its sets, or a recording is there twice or of two people.
    """
    if not index.is_file():
        raise StudyError(f"{index}: no such index; name the data (or set VOICEID_CORPUS)")
    try:
        items = read_rows(index)
    except EvaluationError as error:
        raise StudyError(str(error)) from error
    check_owners(items, index)
    root, longest = index.parent, options.max_seconds
    fitting = [item for item in items if longest is None or item.seconds <= longest]
    own = [item for item in fitting if item.kind == "bonafide" and item.set in options.sets]
    people = by_speaker([item for item in own if options.split in (None, item.split)], options.seed)
    check_copies(item for own in people.values() for item in own)
    if options.recorded:
        attacks = [item for item in fitting if item.kind == "adversarial" and item.set in options.recorded]
        trials, dropped = recorded_trials(attacks, people, root, options.enrolment)
        print(f"{dropped} of {len(attacks)} attacks have nobody to be tried against", file=sys.stderr)
    else:
        trials = genuine_trials(
            people,
            root,
            enrolment=options.enrolment,
            tests=options.tests,
            impostors=options.impostors,
            seed=options.seed,
        )
    if options.only is not None:
        trials = [trial for trial in trials if trial.target == (options.only == "target")]
    chosen = balanced(trials, options.limit, options.seed)
    if not chosen:
        raise StudyError(f"{index}: no trials in sets {', '.join(options.recorded or options.sets)}")
    write_trials(options.file, chosen)
    target = sum(trial.target for trial in chosen)
    print(f"{options.file}: {target} target and {len(chosen) - target} non-target trials")
