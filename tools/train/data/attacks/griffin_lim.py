"""Griffin-Lim: copy-synthesis from magnitudes alone (Griffin and Lim, 1984; momentum of Perraudin et al., 2013)."""

from __future__ import annotations

import numpy as np

from tools.train.data.attacks.stft import Grid, Magnitude, random_grid, through_mel
from voiceid.types import Samples

MOMENTUM = 0.99


def reconstruct(magnitude: Magnitude, grid: Grid, length: int, iterations: int, random: np.random.Generator) -> Samples:
    """A waveform (``length``,) whose spectrogram approaches ``magnitude`` (bins, frames)."""
    phase = np.exp(2j * np.pi * random.random(magnitude.shape)).astype(np.complex64)
    previous = np.zeros_like(phase)
    for _ in range(iterations):
        rebuilt = grid.analyse(grid.synthesise(magnitude * phase, length))
        phase = rebuilt - MOMENTUM / (1 + MOMENTUM) * previous
        phase /= np.abs(phase) + 1e-9
        previous = rebuilt
    return grid.synthesise(magnitude * phase, length)


def linear(samples: Samples, random: np.random.Generator) -> Samples:
    """Copy-synthesis from the linear magnitude spectrogram."""
    grid = random_grid(random)
    return reconstruct(np.abs(grid.analyse(samples)), grid, len(samples), int(random.integers(6, 25)), random)


def mel(samples: Samples, random: np.random.Generator) -> Samples:
    """Copy-synthesis from the mel spectrogram."""
    grid = random_grid(random)
    magnitude = through_mel(np.abs(grid.analyse(samples)), grid, random)
    return reconstruct(magnitude, grid, len(samples), int(random.integers(8, 33)), random)
