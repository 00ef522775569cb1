"""Differentiable speaker models: what an adversary needs of the model under attack, or of another one.

A model is named by an identity card (a name or a path), or ``campplus`` for CAM++ (tools.train.teachers.campplus).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.studies.adversarial.frontend import KaldiBank, LogMel
from tools.studies.errors import StudyError
from tools.train.networks.deep_speaker import BANDS, DOWNSAMPLING, DeepSpeaker, Shape
from tools.train.teachers.campplus import CamPlusPlus
from tools.train.unfold import unfold
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel
from voiceid.types import SAMPLE_RATE

CAMPPLUS = "campplus"
PARITY = 1e-3
"""Greatest difference between a coordinate of our embedding and of the card's."""


class SpeakerModel(nn.Module):
    """Net speech at the policy's level (b, n) to embeddings (b, d) of unit norm."""

    def __init__(self, frontend: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.frontend, self.network = frontend, network
        self.eval().requires_grad_(False)

    def forward(self, speech: Tensor) -> Tensor:
        return F.normalize(self.network(self.frontend(speech)), dim=1)


def load_model(name: str) -> SpeakerModel:
    """The differentiable model of that name.

    Raises:
        ModelError: no such card, or damaged.
        StudyError: a network that cannot be rebuilt in torch.
    """
    if name == CAMPPLUS:
        return SpeakerModel(KaldiBank(), CamPlusPlus().network)
    return from_card(name)


def from_card(reference: str) -> SpeakerModel:
    """The deep speaker ResCNN behind an identity card with log-mel input, checked against the card's own answer.

    Raises:
        ModelError: no such card, or damaged.
        StudyError: another front end or network, or other embeddings than the card's.
    """
    model = find_model(reference, "identity")
    if model.card.frontend != "log-mel":
        raise StudyError(f"card {reference!r}: front end {model.card.frontend!r}; only log-mel is differentiable here")
    network = DeepSpeaker(_shape(model.onnx))
    rng = np.random.default_rng(0)
    speech = (0.05 * rng.standard_normal(2 * SAMPLE_RATE)).astype(np.float32)
    features = LogMel()(torch.from_numpy(speech)[None])[..., None]
    try:
        unfold(network, model.onnx, features)
    except SystemExit as error:
        raise StudyError(str(error)) from error
    rebuilt = SpeakerModel(nn.Sequential(LogMel(), nn.Unflatten(2, (BANDS, 1))), network)
    with torch.no_grad():
        ours = rebuilt(torch.from_numpy(speech)[None])[0].numpy()
    difference = float(np.abs(ours - IdentityModel(model).embed(speech)).max())
    if not difference < PARITY:
        raise StudyError(
            f"card {reference!r}: the network rebuilt in torch differs by {difference:.2g} from {model.onnx}"
        )
    return rebuilt


def _shape(exported: Path) -> Shape:
    """The shape of an exported ResCNN, read from its weights."""
    sizes = {tensor.name: tuple(tensor.dims) for tensor in onnx.load(exported).graph.initializer}
    stages = [size[0] for size in sizes.values() if size[2:] == (5, 5)]
    affine = [size for name, size in sizes.items() if len(size) == 2 and "affine" in name]
    if len(stages) != 4 or not affine:
        raise StudyError(f"{exported}: not an exported deep speaker ResCNN")
    pooled = stages[-1] * BANDS // DOWNSAMPLING
    (embedding, inputs) = affine[0]
    channels = (stages[0], stages[1], stages[2], stages[3])
    return Shape(channels, embedding, normalise_input=True, deviation=inputs == 2 * pooled)
