"""Parallel WaveGAN's generator (Yamamoto et al., ICASSP 2020, arXiv 1910.11480): a WaveNet that shapes noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

STACKS, LAYERS = 2, 6
"""Stacks of layers with dilations 1, 3, 9, ...; the original has 3 of 10 with 1, 2, 4, ..."""
QUIET = 0.1
"""Gain of the last layer at first, so that training begins at about the level of speech."""
MEAN, SPREAD = -6.0, 2.5
"""About those of the log-mel bands of speech at the level policy, by which the condition is normed."""
SEED = 0
"""Of the noise when copying, so that one spectrogram gives one waveform."""


class Stretch(nn.Module):
    """Repeats frames and smooths what comes out, factor by factor: (b, c, t) to (b, c, t * product)."""

    def __init__(self, factors: Sequence[int]) -> None:
        super().__init__()
        self.factors = tuple(factors)
        self.smoothers = nn.ModuleList(nn.Conv2d(1, 1, (1, 2 * f + 1), padding=(0, f), bias=False) for f in factors)
        for smoother, factor in zip(self.smoothers, self.factors, strict=True):
            nn.init.constant_(smoother.weight, 1 / (2 * factor + 1))  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        for factor, smoother in zip(self.factors, self.smoothers, strict=True):
            x = smoother(x.repeat_interleave(factor, dim=2).unsqueeze(1)).squeeze(1)
        return x


class Layer(nn.Module):
    """A dilated convolution, gated, on the condition: (b, c, n) to the next layer's input and a skip output."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilated = _convolution(width, 2 * width, 3, dilation)
        self.condition = _convolution(width, 2 * width)
        self.out = _convolution(width, 2 * width)

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        value, gate = (self.dilated(x) + self.condition(condition)).chunk(2, dim=1)
        rest, skip = self.out(torch.tanh(value) * torch.sigmoid(gate)).chunk(2, dim=1)
        return (x + rest) * math.sqrt(0.5), skip


class ParallelWaveGan(nn.Module):
    """Log-mel (b, bands, t) to waveform (b, t * product of ``strides``)."""

    def __init__(self, bands: int, width: int, strides: Sequence[int]) -> None:
        super().__init__()
        self.narrow = _convolution(bands, width, 5)
        self.stretch = Stretch(strides)
        self.first = _convolution(1, width)
        self.layers = nn.ModuleList(Layer(width, 3**i) for _ in range(STACKS) for i in range(LAYERS))
        self.last = nn.Sequential(nn.ReLU(), _convolution(width, width), nn.ReLU(), _convolution(width, 1, gain=QUIET))

    def forward(self, mel: Tensor) -> Tensor:
        condition = self.stretch(self.narrow((mel - MEAN) / SPREAD))
        x = self.first(self._noise(condition))
        skips = torch.zeros_like(x)
        for layer in self.layers:
            x, skip = layer(x, condition)
            skips = skips + skip
        waveform: Tensor = self.last(skips * math.sqrt(1 / len(self.layers))).float().squeeze(1)
        return waveform

    def _noise(self, like: Tensor) -> Tensor:
        """Gaussian noise (b, 1, n): new in training, always the same when copying."""
        source = None if self.training else torch.Generator(like.device).manual_seed(SEED)
        return torch.randn(len(like), 1, like.shape[2], generator=source, device=like.device)


def _convolution(inputs: int, outputs: int, size: int = 1, dilation: int = 1, gain: float = 1.0) -> nn.Module:
    """A normed convolution that keeps the length and, at first, the spread of what it hears, without an offset."""
    made = nn.Conv1d(inputs, outputs, size, padding=size // 2 * dilation, dilation=dilation)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    nn.init.zeros_(made.bias)  # type: ignore[arg-type]
    with torch.no_grad():
        made.weight.mul_(gain)
    return weight_norm(made)
