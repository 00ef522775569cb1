"""Differentiable speaker models: what an adversary needs of the model under attack, or of another one.

A model is named by an identity card (a name or a path), or ``campplus`` for CAM++ (tools.train.teachers.campplus).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.studies.adversarial.frontend import KaldiBank, LogMel
from tools.studies.errors import StudyError
from tools.train.networks.deep_speaker import BANDS, DeepSpeaker
from tools.train.teachers.campplus import CamPlusPlus
from tools.train.unfold import read_weights, unfold
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel
from voiceid.types import SAMPLE_RATE

CAMPPLUS = "campplus"
PARITY = 0.99
"""Least cosine of our embedding with the card's, which may compute with integers."""


class Members(nn.Module):
    """Features to the sum of the embeddings of the networks of a committee, or of one."""

    def __init__(self, networks: list[DeepSpeaker]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, features: Tensor) -> Tensor:
        return torch.stack([network(features) for network in self.networks]).sum(dim=0)


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
    rng = np.random.default_rng(0)
    speech = (0.05 * rng.standard_normal(2 * SAMPLE_RATE)).astype(np.float32)
    features = LogMel()(torch.from_numpy(speech)[None])[..., None]
    try:
        networks = [DeepSpeaker(weights.shape) for weights in read_weights(model.onnx)]
        for number, network in enumerate(networks):
            unfold(network, model.onnx, features, number)
    except SystemExit as error:
        raise StudyError(str(error)) from error
    rebuilt = SpeakerModel(nn.Sequential(LogMel(), nn.Unflatten(2, (BANDS, 1))), Members(networks))
    with torch.no_grad():
        ours = rebuilt(torch.from_numpy(speech)[None])[0].numpy()
    cosine = float(ours @ IdentityModel(model).embed(speech))
    if not cosine > PARITY:
        raise StudyError(
            f"card {reference!r}: the network rebuilt in torch has a cosine of {cosine:.3f} to {model.onnx}"
        )
    return rebuilt
