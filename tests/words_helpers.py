"""A small but real recogniser for tests: unit 0 says nothing, unit n writes letter n, so that units can spell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.train.cards import write_card
from voiceid.models.card import SCHEMA, Calibration, Card, Threshold
from voiceid.understanding.alphabet import LABELS, encode
from voiceid.understanding.language import LanguageModel
from voiceid.units.packing import UnitSequence

HASH = bytes(range(32))
CODEBOOK = 50


def spell(text: str) -> UnitSequence:
    """Units that the small recogniser reads as ``text``."""
    return UnitSequence(CODEBOOK, tuple(unit for label in encode(text) for unit in (label, 0)), merged=True)


def spoken(text: str, sure: float = 0.9) -> np.ndarray:
    """Posteriors of a recogniser that is as ``sure`` of every letter of ``text`` (T, LABELS)."""
    labels = np.array(spell(text).units)
    table = np.full((LABELS, LABELS), np.log((1 - sure) / (LABELS - 1)), np.float32)
    np.fill_diagonal(table, np.log(sure))
    return table[labels]


def write_recogniser(folder: Path) -> Path:
    """Write the card ``words`` with its model and a language model into ``folder``; the card's path."""
    folder.mkdir(parents=True, exist_ok=True)
    table = np.full((CODEBOOK, LABELS), np.log(0.1 / (LABELS - 1)), np.float32)
    table[np.arange(LABELS), np.arange(LABELS)] = np.log(0.9)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "units"], ["letters"])],
        "words",
        [helper.make_tensor_value_info("units", TensorProto.INT64, [1, "time"])],
        [helper.make_tensor_value_info("letters", TensorProto.FLOAT, [1, "time", LABELS])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, folder / "words.onnx")
    LanguageModel.learn(["get me a latte please", "open the door"]).write(folder / "words-language.npz")
    card = Card(
        schema=SCHEMA,
        name="words",
        role="words",
        version="0",
        description="for tests",
        file="words.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend="units",
        level_dbfs=None,
        min_seconds=0.1,
        window_seconds=None,
        calibration=Calibration(20.0, 6.0, "none"),
        thresholds={name: Threshold(0.5, "none") for name in ("convenience", "balanced", "strict")},
        training_data=[],
        metrics={},
        command="",
        licence="MIT",
        parameters={"codebook": CODEBOOK, "codebook_hash": HASH.hex()},
        assets={"words-language.npz": ""},
    )
    return write_card(card, folder)
