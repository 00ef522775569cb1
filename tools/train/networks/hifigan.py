"""HiFi-GAN's generator V1 (Kong et al., NeurIPS 2020, arXiv 2010.05646): log-mel spectrogram to waveform at 22.05 kHz.

Layers carry the names of the published checkpoints, so that those load; weight normalisation is folded on loading.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BANDS = 80
STRIDES = (8, 8, 2, 2)
CHANNELS = (512, 256, 128, 64, 32)
KERNELS, DILATIONS = (3, 7, 11), (1, 3, 5)
SLOPE = 0.1


class ResidualBlock(nn.Module):
    """Three pairs of a dilated and a plain convolution, each with a skip: (b, c, t) to the same."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2 * d, dilation=d) for d in DILATIONS
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            x = x + plain(F.leaky_relu(dilated(F.leaky_relu(x, SLOPE)), SLOPE))
        return x


class HifiGan(nn.Module):
    """Natural log-mel (b, 80, t) to waveform (b, 256 t)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_pre = nn.Conv1d(BANDS, CHANNELS[0], 7, padding=3)
        steps = list(zip(pairwise(CHANNELS), STRIDES, strict=True))
        self.ups = nn.ModuleList(nn.ConvTranspose1d(a, b, 2 * s, s, s // 2) for (a, b), s in steps)
        self.resblocks = nn.ModuleList(ResidualBlock(b, kernel) for (_, b), _ in steps for kernel in KERNELS)
        self.conv_post = nn.Conv1d(CHANNELS[-1], 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.conv_pre(mel)
        for level, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, SLOPE))
            blocks = self.resblocks[level * len(KERNELS) : (level + 1) * len(KERNELS)]
            x = torch.stack([block(x) for block in blocks]).mean(dim=0)  # type: ignore[union-attr]
        return torch.tanh(self.conv_post(F.leaky_relu(x))).squeeze(1)

    def load_published(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of a published checkpoint, whose layers are weight-normalised (``_g`` and ``_v``)."""
        plain = {name: tensor for name, tensor in weights.items() if not name.endswith(("weight_g", "weight_v"))}
        for name in (name for name in weights if name.endswith("weight_g")):
            direction = weights[name.replace("weight_g", "weight_v")]
            norm = direction.flatten(1).norm(dim=1).view_as(weights[name])
            plain[name.removesuffix("_g")] = direction * (weights[name] / norm)
        self.load_state_dict(plain)
