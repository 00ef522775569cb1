"""Writing a model card from an ONNX file and what its training knows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime

from voiceid.models.card import Card


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_card(card: Card, folder: Path) -> Path:
    """Fill in the hashes and shapes of ``card``'s files in ``folder`` and write ``<name>.json`` beside them."""
    model = folder / card.file
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    shapes = [
        {node.name: [d if isinstance(d, int) else str(d) for d in node.shape] for node in nodes}
        for nodes in (session.get_inputs(), session.get_outputs())
    ]
    inputs: dict[str, list[Any]]
    inputs, outputs = shapes
    assets = {name: sha256(folder / name) for name in card.assets}
    complete = replace(card, sha256=sha256(model), inputs=inputs, outputs=outputs, assets=assets)
    path = folder / f"{card.name}.json"
    partial = path.with_suffix(".tmp")
    partial.write_text(complete.to_json(), "utf-8")
    partial.replace(path)
    return path
