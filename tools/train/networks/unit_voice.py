"""From units to spectral envelopes: what a voice sounds like that says them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.train.networks.mel_encoder import BANDS, SIZE, WINDOW, triangles

VOICE = 16
"""Dimensions of a voice."""


class UnitVoice(nn.Module):
    """Units (B, T) in [0, codebook) and voices (B,) to log-mel energies (B, T, bands) and voicing logits (B, T).

    Residual convolutions over time, which see 160 ms either way; a voice is a learnt vector beside each frame.
    """

    def __init__(self, codebook: int, voices: int, width: int = 96, layers: int = 3) -> None:
        super().__init__()
        self.options = {"codebook": codebook, "voices": voices, "width": width, "layers": layers}
        self.unit = nn.Embedding(codebook, width)
        self.voice = nn.Embedding(voices, VOICE)
        self.enter = nn.Conv1d(width + VOICE, width, 5, padding=2)
        dilations = [2**i for i in range(layers)]
        self.inner = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2 * d, dilation=d) for d in dilations)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in dilations)
        self.leave = nn.Conv1d(width, BANDS + 1, 1)

    def forward(self, units: Tensor, voices: Tensor) -> tuple[Tensor, Tensor]:
        voice = self.voice(voices)[:, None].expand(-1, units.shape[1], -1)
        x = self.enter(torch.cat((self.unit(units), voice), dim=-1).transpose(1, 2))
        for convolution, norm in zip(self.inner, self.norms, strict=True):
            x = x + F.relu(norm(convolution(x)))
        found = self.leave(x).transpose(1, 2)
        return found[..., :BANDS], found[..., BANDS]


class FixedVoice(nn.Module):
    """What ships: units (1, T) to the amplitude in each bin (1, T, 257) of a source of power one, and voicing (1, T).

    Band energies become densities at the bands' middles, between which the envelope runs straight in decibels.
    ``contrast`` widens the envelope's swings over frequency, which the mean over all ways to say a unit has flattened.
    """

    def __init__(self, trained: UnitVoice, voice: Tensor, contrast: float) -> None:
        super().__init__()
        self.trained = trained
        with torch.no_grad():
            trained.voice.weight[0] = voice
        bank = triangles().numpy()
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
        density = bank.sum(axis=0) * np.square(hann).sum() / SIZE
        middles = bank.T @ np.arange(len(bank)) / bank.sum(axis=0)
        spread = np.stack([np.interp(np.arange(len(bank)), middles, row) for row in np.eye(BANDS)])
        self.register_buffer("spread", torch.from_numpy(spread).float(), persistent=False)
        self.register_buffer("density", torch.from_numpy(np.log(density)).float(), persistent=False)
        self.contrast = contrast

    def forward(self, units: Tensor) -> tuple[Tensor, Tensor]:
        mel, voicing = self.trained(units, torch.zeros(1, dtype=torch.int64))
        level = mel - self.density
        smooth = F.avg_pool1d(F.pad(level, (8, 8), mode="replicate"), 17, 1)
        level = smooth + self.contrast * (level - smooth)
        return torch.exp(0.5 * (level @ self.spread)), torch.sigmoid(voicing)
