"""Small indices of a few real recordings, and running ``evaluate.py`` on them."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.evaluate import main
from tools.train.data.corpus import Item, read_index

COLUMNS = ("path", "set", "speaker", "text", "kind", "note")


@dataclass(frozen=True)
class Ran:
    """What a measurement came to."""

    status: int
    result: dict[str, Any]
    out: str
    err: str


class Bench:
    """Runs ``evaluate.py`` in this process, on the small models, in its own cache."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capture = folder, capture

    def run(self, command: str, index: Path, *options: object) -> Ran:
        output = self.folder / "result.json"
        output.unlink(missing_ok=True)
        arguments = [command, "--index", str(index), "--json", str(output), "--jobs", "1", *map(str, options)]
        status = main(arguments)
        said = self._capture.readouterr()
        return Ran(status, json.loads(output.read_text()) if output.exists() else {}, said.out, said.err)


def corpus_items(corpus: Path, sets: str, kind: str = "bonafide") -> list[Item]:
    return [item for item in read_index(corpus / "index.csv") if item.set == sets and item.kind == kind]


def write_index(folder: Path, items: list[Item], *, copy: bool = False, columns: tuple[str, ...] = COLUMNS) -> Path:
    """An index of ``items`` with absolute paths, or with copies beside it and relative paths."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        for number, item in enumerate(items):
            where = str(item.path)
            if copy:
                where = f"audio/{number}-{item.path.name}"
                (folder / "audio").mkdir(exist_ok=True)
                shutil.copyfile(item.path, folder / where)
            fields = {"set": item.set, "speaker": item.speaker, "text": item.text, "kind": item.kind, "note": item.note}
            writer.writerow({"path": where, **fields})
    return path
