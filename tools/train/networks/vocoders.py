"""Neural vocoders: log-mel spectrogram to waveform, by transposed convolutions, a predicted spectrum, or shaped noise.

Three kinds whose traces differ: upsampling networks as HiFi-GAN's (Kong et al., NeurIPS 2020, arXiv 2010.05646),
frame-rate networks that predict magnitude and phase for an inverse transform, as Vocos (Siuzdak, ICLR 2024, arXiv
2306.00814), and Parallel WaveGAN (:mod:`tools.train.networks.parallel_wavegan`); all much narrower than the originals,
so that they learn on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import librosa
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from tools.train.networks.parallel_wavegan import ParallelWaveGan
from voiceid.types import SAMPLE_RATE

LEAK = 0.1


@dataclass(frozen=True)
class VocoderShape:
    """One vocoder: its kind, the spectrogram that it hears, and its sizes.

    ``width`` is the channels at frame rate. ``strides`` multiply to ``hop`` for "upsampling" and "parallel"; for
    "spectral" they only tell how many blocks there are.
    """

    kind: Literal["upsampling", "spectral", "parallel"]
    hop: int
    fft: int
    bands: int
    top_hertz: float
    width: int
    strides: tuple[int, ...]
    bottom_hertz: float = 0.0


SHAPES: dict[str, VocoderShape] = {
    "upsampling-256": VocoderShape("upsampling", 256, 1024, 80, 8_000.0, 192, (8, 8, 4)),
    "upsampling-160": VocoderShape("upsampling", 160, 512, 80, 7_600.0, 160, (5, 4, 4, 2)),
    "spectral-160": VocoderShape("spectral", 160, 640, 100, 8_000.0, 256, (1,) * 8),
    "spectral-256": VocoderShape("spectral", 256, 1024, 80, 7_600.0, 224, (1,) * 6),
    "parallel-200": VocoderShape("parallel", 200, 800, 80, 7_600.0, 24, (5, 5, 8), 80.0),
}


class MelSpectrogram(nn.Module):
    """Waveform (b, n) to log-mel (b, bands, 1 + n // hop), natural logarithm of magnitudes floored at 1e-5."""

    def __init__(self, shape: VocoderShape) -> None:
        super().__init__()
        self.fft, self.hop = shape.fft, shape.hop
        self.register_buffer("window", torch.hann_window(shape.fft), persistent=False)
        triangles = librosa.filters.mel(
            sr=SAMPLE_RATE, n_fft=shape.fft, n_mels=shape.bands, fmin=shape.bottom_hertz, fmax=shape.top_hertz
        )
        self.register_buffer("bands", torch.from_numpy(triangles), persistent=False)
        self.window: Tensor
        self.bands: Tensor

    def forward(self, waveform: Tensor) -> Tensor:
        spectrum = torch.stft(waveform, self.fft, self.hop, window=self.window, return_complex=True).abs()
        return (self.bands @ spectrum).clamp_min(1e-5).log()


class Residual(nn.Module):
    """Dilated convolutions of one kernel size with a skip each: (b, c, t) to the same."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels, kernel, padding=kernel // 2 * d, dilation=d)) for d in (1, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = x + convolution(F.leaky_relu(x, LEAK))
        return x


class Upsampling(nn.Module):
    """HiFi-GAN's generator: log-mel (b, bands, t) to waveform (b, t * hop)."""

    def __init__(self, shape: VocoderShape) -> None:
        super().__init__()
        channels = [max(12, shape.width >> level) for level in range(len(shape.strides) + 1)]
        self.first = weight_norm(nn.Conv1d(shape.bands, channels[0], 7, padding=3))
        steps = list(zip(pairwise(channels), shape.strides, strict=True))
        self.ups = nn.ModuleList(
            weight_norm(nn.ConvTranspose1d(a, b, 2 * s, s, (s + 1) // 2, s % 2)) for (a, b), s in steps
        )
        self.mixes = nn.ModuleList(nn.ModuleList(Residual(b, kernel) for kernel in (3, 7)) for (_, b), _ in steps)
        self.last = weight_norm(nn.Conv1d(channels[-1], 1, 7, padding=3))

    def forward(self, mel: Tensor) -> Tensor:
        x = self.first(mel)
        for up, mix in zip(self.ups, self.mixes, strict=True):
            x = up(F.leaky_relu(x, LEAK))
            x = torch.stack([block(x) for block in mix]).mean(dim=0)  # type: ignore[union-attr]
        waveform: Tensor = torch.tanh(self.last(F.leaky_relu(x, LEAK)).float()).squeeze(1)
        return waveform


class Block(nn.Module):
    """A ConvNeXt block in one dimension: (b, c, t) to the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 3 * channels), nn.Linear(3 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).transpose(1, 2))
        return x + (self.scale * self.narrow(F.gelu(self.wide(y)))).transpose(1, 2)


class Spectral(nn.Module):
    """Vocos' generator: log-mel (b, bands, t) to waveform (b, (t - 1) * hop) by magnitudes and phases."""

    def __init__(self, shape: VocoderShape) -> None:
        super().__init__()
        self.fft, self.hop = shape.fft, shape.hop
        self.first = nn.Conv1d(shape.bands, shape.width, 7, padding=3)
        self.blocks = nn.Sequential(*(Block(shape.width) for _ in shape.strides))
        self.head = nn.Conv1d(shape.width, shape.fft + 2, 1)
        self.register_buffer("window", torch.hann_window(shape.fft), persistent=False)
        self.window: Tensor

    def forward(self, mel: Tensor) -> Tensor:
        magnitude, phase = self.head(self.blocks(self.first(mel))).float().chunk(2, dim=1)
        spectrum = torch.polar(magnitude.clamp_max(4.0).exp(), phase)
        return torch.istft(spectrum, self.fft, self.hop, window=self.window)


def generator(shape: VocoderShape) -> nn.Module:
    """The generator of ``shape``, with random weights."""
    if shape.kind == "parallel":
        return ParallelWaveGan(shape.bands, shape.width, shape.strides)
    return Upsampling(shape) if shape.kind == "upsampling" else Spectral(shape)
