"""Units: bit rate, phones in the units beside MFCC + k-means, and a speaker attacker on them beside mel features."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, Work, each
from tools.evaluation.report import card_summary, interval, percent, table
from tools.evaluation.selection import choose, limited
from tools.evaluation.traits import attack_traits
from tools.train.data.corpus import Item, read_index
from tools.train.units_metrics import BACKGROUND_SETS, background_pieces, evaluate_units, prepared_items
from voiceid.audio import read_waveform
from voiceid.models.store import VerifiedModel, find_model
from voiceid.settings import ModelSettings
from voiceid.units.tokenizer import Tokenizer

TRAIT_SETS = (*BACKGROUND_SETS, "mls-pt-yourtts-gt")
COUNTS = ("eer", "ci95", "n_target", "n_nontarget")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--phone-utterances", type=int, default=200, metavar="N", help="transcribed files to align")
    parser.add_argument("--background", type=int, metavar="N", help="training speakers of attacker and baseline (all)")
    parser.add_argument("--traits", action="store_true", help="also attackers on high or low voice and on the language")
    parser.epilog = (
        "EER is a speaker attacker's, retrained on the units of the default profile: higher is more private."
    )


def readable() -> Work:
    """A function that returns its file if it can be decoded."""

    def check(item: Item) -> Item:
        read_waveform(item.path)
        return item

    return check


def background(speakers: int, seed: int) -> list[Item]:
    """Recordings of ``speakers`` seeded readers of the training split."""
    items = [i for i in read_index() if i.split == "train" and i.kind == "bonafide" and i.set in BACKGROUND_SETS]
    names = sorted({item.speaker for item in items})
    chosen = set(random.Random(seed).sample(names, min(speakers, len(names))))
    return [item for item in items if item.speaker in chosen]


def traits(model: VerifiedModel, items: Sequence[Item], seed: int, progress: bool) -> dict[str, Any]:
    """Figures of the attackers of :mod:`tools.evaluation.traits` on ``items``; they learn from all that is no test."""
    known = [i for i in read_index() if i.split in ("train", "dev") and i.kind == "bonafide" and i.set in TRAIT_SETS]
    pieces = background_pieces(known, np.random.default_rng(seed), progress)
    return attack_traits(Tokenizer(model), pieces, prepared_items(items, progress))


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    if set(options.kinds) - {"bonafide"}:
        raise EvaluationError("units are measured on bona fide speech only")
    items = limited(choose(options, ("bonafide",)), options)
    account = Account()
    usable = [item for item, _ in each(readable, items, jobs=options.jobs, account=account, label="read")]
    model = find_model(options.card or ModelSettings().units, "units")
    measured = evaluate_units(
        usable,
        model.folder / f"{model.card.name}.json",
        background=None if arguments.background is None else background(arguments.background, options.seed),
        phone_utterances=arguments.phone_utterances,
        seed=options.seed,
        progress=sys.stderr.isatty(),
    )
    attack = {name: measured.get(name) for name in COUNTS}
    attack = {**attack, "n_target": attack["n_target"] or 0, "n_nontarget": attack["n_nontarget"] or 0}
    if attack["eer"] is None:
        attack["reason"] = measured.get("note", "no speaker attack")
    sets = sorted({item.set for item in usable})
    by = {
        "codebook": measured["by"],
        "kind": {"bonafide": attack},
        "set": {sets[0]: attack} if len(sets) == 1 else {},
        "note": {},
    }
    if arguments.traits:
        measured["traits"] = traits(model, usable, options.seed, sys.stderr.isatty())
    result = {"command": "units", "card": card_summary(model.card), **measured, **attack, "by": by}
    return result, describe(result), account


def describe(result: dict[str, Any]) -> str:
    """Bit rate, phones and attacker by codebook."""
    rows = []
    for codebook, part in result["by"]["codebook"].items():
        mine, theirs = part.get("phones", {}).get("pnmi"), part.get("phones_mfcc", {}).get("pnmi")
        attacker = part.get("attacker", {})
        rows.append(
            [
                f"k = {codebook}",
                f"{part['bits_per_second']:.0f}",
                "-" if mine is None else f"{mine:.3f}",
                "-" if theirs is None else f"{theirs:.3f}",
                percent(attacker.get("eer")),
                interval(attacker.get("ci95")),
            ]
        )
    lines = [table(["", "bit/s", "PNMI", "PNMI of MFCC + k-means", "attacker EER", "95 % interval"], rows), ""]
    mel = result.get("mel", {})
    lines.append(
        f"{result['utterances']} files, {result['seconds']:.0f} s; {result['phone_utterances']} aligned; "
        f"the same attacker on mel: EER {percent(mel.get('eer'))}"
    )
    for trait, found in result.get("traits", {}).items():
        if "note" in found:
            lines.append(f"{trait}: {found['note']}")
            continue
        figures = ", ".join(f"by {kind} {percent(f['eer'])} ({interval(f['ci95'])})" for kind, f in found.items())
        counts = found["units"]
        lines.append(
            f"{trait}: {figures}; {counts['n_target']} / {counts['n_nontarget']} trials of "
            f"{counts['speakers'][0]} / {counts['speakers'][1]} speakers"
        )
    if "reason" in result:
        lines.append(str(result["reason"]))
    return "\n".join(lines)
