"""Discriminators that teach vocoders: over periods of the waveform and over spectrograms.

HiFi-GAN's multi-period discriminator (Kong et al., 2020) and UnivNet's multi-resolution one (Jang et al., 2021, arXiv
2106.07889), both narrowed so that they learn on a CPU.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

LEAK = 0.1


class Critic(nn.Module):
    """Strided two-dimensional convolutions: an image (b, 1, h, w) to its feature maps, the last its score map."""

    def __init__(self, kernel: tuple[int, int], stride: tuple[int, int], channels: tuple[int, ...]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, kernel, stride, padding)) for a, b in pairwise((1, *channels))
        )
        self.last = weight_norm(nn.Conv2d(channels[-1], 1, 3, padding=1))

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), LEAK)
            maps.append(x)
        return [*maps, self.last(x)]


class Discriminators(nn.Module):
    """Critics of the waveform folded at three periods and of three spectrograms: (b, n) to a list of feature maps."""

    PERIODS = (2, 5, 11)
    SIZES = (256, 512, 1024)

    def __init__(self) -> None:
        super().__init__()
        self.periods = nn.ModuleList(Critic((5, 1), (3, 1), (8, 24, 48, 64)) for _ in self.PERIODS)
        self.spectra = nn.ModuleList(Critic((5, 3), (2, 1), (8, 12, 16, 16)) for _ in self.SIZES)

    def forward(self, waveform: Tensor) -> list[list[Tensor]]:
        maps = []
        for period, critic in zip(self.PERIODS, self.periods, strict=True):
            folded = F.pad(waveform, (0, -waveform.shape[1] % period)).unflatten(1, (-1, period))
            maps.append(critic(folded.unsqueeze(1)))
        for size, critic in zip(self.SIZES, self.spectra, strict=True):
            window = torch.hann_window(size, device=waveform.device)
            spectrum = torch.stft(waveform, size, size // 4, window=window, return_complex=True).abs()
            maps.append(critic((spectrum + 1e-5).log().unsqueeze(1)))
        return maps


def fooling_loss(fake: list[list[Tensor]], real: list[list[Tensor]]) -> Tensor:
    """What a generator is to lower: least-squares adversarial loss plus twice the feature matching loss."""
    adversarial = sum(((maps[-1] - 1).square().mean() for maps in fake), torch.zeros(()))
    pairs = [
        (a, b) for fakes, reals in zip(fake, real, strict=True) for a, b in zip(fakes[:-1], reals[:-1], strict=True)
    ]
    matching = sum(((a - b).abs().mean() for a, b in pairs), torch.zeros(()))
    return adversarial + 2 * matching


def judging_loss(fake: list[list[Tensor]], real: list[list[Tensor]]) -> Tensor:
    """What the discriminators are to lower: least squares to 1 for recordings and to 0 for copies."""
    losses = (
        (theirs[-1] - 1).square().mean() + ours[-1].square().mean() for ours, theirs in zip(fake, real, strict=True)
    )
    return sum(losses, torch.zeros(()))
