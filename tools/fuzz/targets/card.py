"""Model cards."""

from __future__ import annotations

import json
from pathlib import Path

from tools.fuzz.target import Target
from voiceid.errors import ModelError
from voiceid.models.card import OPERATING_POINTS, read_card
from voiceid.models.store import shipped_folder


def make(folder: Path) -> Target:
    path = folder / "card.json"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        try:
            card = read_card(path)
            card.to_json()
            for point in OPERATING_POINTS:
                card.threshold(point)
        except ModelError:
            return

    seeds = tuple(map(_short, sorted(shipped_folder().glob("*.json"))))
    return Target(
        run, seeds, 4096, ("NaN", "Infinity", "null", "true", "1e999", "thresholds", "parameters", "assets"), json=True
    )


def _short(path: Path) -> bytes:
    """The card without its prose, so that mutations meet what is parsed."""
    card = json.loads(path.read_text("utf-8"))
    short = {"metrics": {}, "command": "", "description": "", "training_data": card["training_data"][:1]}
    return json.dumps({**card, **short}).encode()
