"""Choosing rows of an index in the corpus format, whatever columns it has."""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Iterable
from pathlib import Path

from tools.evaluation.options import EvaluationError, Options
from tools.train.data.corpus import Item

NEEDED = ("path", "speaker", "kind")
NOT_SPEECH = ("adv-uap-perturbations",)
"""Sets of adversarial perturbations alone, without the speech that they are meant for."""
LIBRISPEECH = re.compile(r"(\d+)-(\d+)-(\d+)")
LIBRITTS = re.compile(r"(\d+)_(\d+)_(\d+)_(\d+)")


def read_rows(index: Path) -> list[Item]:
    """All rows of ``index``; columns other than path, speaker and kind may be missing.

    Raises:
        EvaluationError: no such file, not CSV text, or a needed column is missing.
    """
    try:
        with index.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            if missing := [name for name in NEEDED if name not in header]:
                raise EvaluationError(
                    f"{index}: no column {', '.join(missing)}; an index needs path, speaker and kind, "
                    f"found {', '.join(header) or 'nothing'}"
                )
            return [_item(index.parent, {k: v or "" for k, v in row.items() if k}) for row in reader if row["path"]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f"{index}: cannot be read as an index ({error})") from error


def _item(folder: Path, row: dict[str, str]) -> Item:
    try:
        seconds = float(row.get("seconds") or 0)
    except ValueError:
        seconds = 0.0
    seconds = seconds if math.isfinite(seconds) else 0.0
    return Item(
        path=folder / row["path"],
        set=row.get("set", ""),
        speaker=row["speaker"].strip(),
        text=row.get("text", ""),
        kind=row["kind"].strip() or "bonafide",
        pair=row.get("pair", ""),
        seconds=seconds,
        licence_class=row.get("class", ""),
        note=row.get("note", ""),
        codec=row.get("codec", ""),
        sex=row.get("sex", ""),
        language=row.get("language", ""),
    )


def choose(options: Options, kinds: Iterable[str]) -> list[Item]:
    """The rows that ``options`` choose among ``kinds``; bona fide rows stay whatever ``--kinds`` says.

    Raises:
        EvaluationError: nothing is left, with what the index does hold.
    """
    wanted = set(options.kinds or kinds) | {"bonafide"}
    rows = read_rows(options.index)
    chosen = [
        row
        for row in rows
        if row.kind in wanted
        and row.set not in NOT_SPEECH
        and (not options.sets or row.set in options.sets)
        and (options.split is None or row.split == options.split)
    ]
    if not chosen:
        sets, found = sorted({row.set for row in rows}), sorted({row.kind for row in rows})
        raise EvaluationError(
            f"{options.index}: no row left to measure; of its {len(rows)} rows the sets are "
            f"{', '.join(sets) or 'none'} and the kinds {', '.join(found) or 'none'}; check --sets, --kinds and --split"
        )
    return chosen


def limited(items: list[Item], options: Options) -> list[Item]:
    """At most ``--limit`` of ``items``, seeded, in their order."""
    if options.limit is None or len(items) <= options.limit:
        return items
    keepers = set(random.Random(options.seed).sample(range(len(items)), options.limit))
    return [item for i, item in enumerate(items) if i in keepers]


def noise_files(index: Path, split: str | None) -> tuple[Path, ...]:
    """The index's noise recordings (of one split if asked)."""
    return tuple(
        r.path for r in read_rows(index) if r.kind == "noise" and split in (None, r.split) and r.path.is_file()
    )


def system(item: Item) -> str:
    """The attack system: what the note says before its first semicolon, else the set."""
    return item.note.split(";")[0].strip() or item.set or item.kind


def session(item: Item) -> str:
    """The recording session where the file's name tells: the chapter of LibriSpeech and LibriTTS; else ''."""
    found = LIBRISPEECH.search(item.path.stem) or LIBRITTS.search(item.path.stem)
    return f"{found[1]}-{found[2]}" if found else ""


def sentence(item: Item) -> str:
    """The words, without case and punctuation."""
    return " ".join(re.findall(r"[\w']+", item.text.lower()))


def identifier(item: Item) -> str:
    """A name for seeding that does not depend on where the corpus lies."""
    return f"{item.path.parent.name}/{item.path.name}"
