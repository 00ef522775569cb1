"""A narrow ResCNN with random weights behind an identity card, for the study of adversarial samples."""

from __future__ import annotations

from pathlib import Path

import torch

from tools.train.cards import write_card
from tools.train.export.identity import export_network
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from voiceid.models.card import SCHEMA, Card

NARROW = Shape((2, 3, 4, 6), embedding=16, normalise_input=True, deviation=True)


def identity_draft(name: str, *, frontend: str = "log-mel") -> Card:
    """A card of the network ``name`` without what is measured."""
    return Card(
        schema=SCHEMA,
        name=name,
        role="identity",
        version="0",
        description="for tests",
        file=f"{name}.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend=frontend,
        level_dbfs=-26.0,
        min_seconds=0.5,
        window_seconds=None,
        calibration=None,
        thresholds={},
        training_data=[],
        metrics={},
        command="",
        licence="MIT",
    )


def write_identity(folder: Path, *, frontend: str = "log-mel", shape: Shape = NARROW) -> Path:
    """Write ``narrow.onnx`` and its card; returns the card."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    network = DeepSpeaker(shape)
    network.train()(torch.randn(4, 96, 64, 1))
    export_network([network.eval()], folder / "narrow.onnx")
    return write_card(identity_draft("narrow", frontend=frontend), folder)
