"""A fixed log-mel front end in the place of CPC's learned convolutions, and changes of voice and channel behind it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from voiceid.types import SAMPLE_RATE

HOP = 160
"""Samples a frame."""
RECEPTIVE = 465
"""Samples that one frame of CPC's encoder sees; this one keeps to them, so that the tokenizer cuts both alike."""
LEFT = 153
"""Samples of those before the frame's first; the remaining 312 start at it."""
WINDOW, SIZE, BANDS = 400, 512, 80
FLOOR = 3e-7
"""Least band energy: 60 dB below a band that holds all of levelled speech."""
CENTRE, SPREAD = -10.5, 3.0
"""Mean and deviation of the logarithms in levelled speech, about."""
WARP, TILT, NOISE = 0.14, 0.5, (-15.0, -10.0)
"""In training: widest warp of mel frequencies, deviation of a random gain, and range of a floor of noise (both nepers
of power)."""


def triangles() -> Tensor:
    """Mel filters (bins, bands) from 40 Hz to 7.8 kHz, each of height one."""
    mel = np.linspace(2595 * np.log10(1 + 40 / 700), 2595 * np.log10(1 + 7800 / 700), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.arange(SIZE // 2 + 1)[:, None] * SAMPLE_RATE / SIZE
    rising = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    return torch.from_numpy(np.maximum(0, np.minimum(rising, falling))).float()


class MelEncoder(nn.Module):
    """Log-mel spectrogram and one linear layer: (B, 1, samples) to (B, width, frames), as ``Encoder`` does.

    A frame is a Hann window of 25 ms about its middle, inside the samples that a frame of the convolutions sees.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(BANDS, width)
        time = np.arange(WINDOW)
        hann = (0.5 - 0.5 * np.cos(2 * np.pi * time / WINDOW)) / SIZE**0.5
        phase = 2 * np.pi * np.arange(SIZE // 2 + 1)[:, None] * time / SIZE
        basis = np.concatenate((np.cos(phase), np.sin(phase))) * hann
        self.register_buffer("basis", torch.from_numpy(basis).float().unsqueeze(1), persistent=False)
        self.register_buffer("hann", torch.from_numpy(hann).float(), persistent=False)
        self.register_buffer("bank", triangles(), persistent=False)

    def forward(self, samples: Tensor, *, padded: bool = True) -> Tensor:
        if padded:
            samples = F.pad(samples, (LEFT, RECEPTIVE - LEFT - HOP))
        return self.encode(self.log_mel(samples[:, 0])).transpose(1, 2)

    def encode(self, log_mel: Tensor) -> Tensor:
        """(..., bands) to (..., width)."""
        return F.relu(self.project((log_mel - CENTRE) / SPREAD))

    def log_mel(self, samples: Tensor) -> Tensor:
        """Logarithms of band energies, |X|^2 / 512: samples (B, n) to (B, (n - 465) // 160 + 1, bands)."""
        margin = (RECEPTIVE - WINDOW) // 2
        inner = samples[:, margin : samples.shape[1] - (RECEPTIVE - WINDOW - margin)]
        if torch.onnx.is_in_onnx_export():
            real, imaginary = F.conv1d(inner[:, None], self.basis, stride=HOP).transpose(1, 2).chunk(2, dim=2)
        else:
            spectrum = torch.fft.rfft(inner.unfold(1, WINDOW, HOP) * self.hann, SIZE)
            real, imaginary = spectrum.real, spectrum.imag
        return torch.log((real.square() + imaginary.square()) @ self.bank + FLOOR)


class Perturber:
    """Other voices (a warp of mel frequencies), channels (a smooth gain), noise and gaps in a batch of spectra.

    Jaitly and Hinton, "Vocal Tract Length Perturbation" (2013); Park et al., "SpecAugment" (Interspeech 2019).
    """

    def __init__(self, steps: int = 29) -> None:
        bands = np.arange(BANDS)
        warps = []
        for warp in np.linspace(-WARP, WARP, steps):
            source = (bands * np.exp(warp)).clip(0, BANDS - 1)
            warps.append(np.stack([np.interp(source, bands, row) for row in np.eye(BANDS)]))
        self._warps = torch.from_numpy(np.stack(warps)).float()

    def __call__(self, log_mel: Tensor, rng: np.random.Generator) -> Tensor:
        """(B, T, bands) to the same shape."""
        rows, frames, _ = log_mel.shape
        places = np.linspace(0, 5, BANDS)
        gains = np.stack([np.interp(places, np.arange(6), row) for row in rng.normal(0, TILT, (rows, 6))])
        noise = rng.uniform(*NOISE, (rows, 1, 1)) + np.linspace(-1, 1, BANDS) * rng.uniform(-1, 1.5, (rows, 1, 1))
        chosen = torch.from_numpy(rng.integers(len(self._warps), size=rows))
        changed = torch.bmm(log_mel, self._warps[chosen]) + torch.from_numpy(gains[:, None]).float()
        changed = torch.logaddexp(changed, torch.from_numpy(noise).float() + 0.3 * torch.randn_like(changed))
        for row in changed:
            low, start = int(rng.integers(BANDS)), int(rng.integers(frames))
            row[:, low : low + int(rng.integers(0, 12))] = CENTRE
            row[start : start + int(rng.integers(0, 8))] = CENTRE
        return changed
