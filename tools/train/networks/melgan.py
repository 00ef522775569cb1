"""MelGAN's generator (Kumar et al., NeurIPS 2019, arXiv 1910.06711): log-mel spectrogram to waveform at 22.05 kHz."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

BANDS = 80
STRIDES = (8, 8, 2, 2)
CHANNELS = (512, 256, 128, 64, 32)
SLOPE = 0.2


class ResidualStack(nn.Module):
    """Three residual blocks of dilation 1, 3 and 9, each with a convolved skip: (b, c, t) to the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LeakyReLU(SLOPE),
                nn.ReflectionPad1d(3**i),
                nn.Conv1d(channels, channels, 3, dilation=3**i),
                nn.LeakyReLU(SLOPE),
                nn.Conv1d(channels, channels, 1),
            )
            for i in range(3)
        )
        self.shortcuts = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block, shortcut in zip(self.blocks, self.shortcuts, strict=True):
            x = shortcut(x) + block(x)
        return x


class MelGan(nn.Module):
    """Natural log-mel (b, 80, t) to waveform (b, 256 t)."""

    def __init__(self) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        for (wide, narrow), stride in zip(pairwise(CHANNELS), STRIDES, strict=True):
            up = nn.ConvTranspose1d(wide, narrow, 2 * stride, stride, stride // 2)
            stages += [nn.LeakyReLU(SLOPE), up, ResidualStack(narrow)]
        self.layers = nn.Sequential(
            nn.ReflectionPad1d(3), nn.Conv1d(BANDS, CHANNELS[0], 7), *stages,
            nn.LeakyReLU(SLOPE), nn.ReflectionPad1d(3), nn.Conv1d(CHANNELS[-1], 1, 7), nn.Tanh(),
        )  # fmt: skip

    def forward(self, mel: Tensor) -> Tensor:
        waveform: Tensor = self.layers((mel + 5) / 5).squeeze(1)
        return waveform
