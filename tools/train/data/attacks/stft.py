"""Short-time Fourier analysis and synthesis shared by the vocoders."""

from __future__ import annotations

from dataclasses import dataclass

import librosa
import numpy as np
from numpy.typing import NDArray

from voiceid.types import SAMPLE_RATE, Samples

Spectrum = NDArray[np.complex64]
Magnitude = NDArray[np.float32]


@dataclass(frozen=True)
class Grid:
    """FFT size and hop, in samples; windows are Hann, frames centred."""

    size: int
    hop: int

    def analyse(self, samples: Samples) -> Spectrum:
        """Float32 (n,) to complex64 (size // 2 + 1, frames)."""
        return np.asarray(librosa.stft(samples, n_fft=self.size, hop_length=self.hop), np.complex64)

    def synthesise(self, spectrum: Spectrum, length: int) -> Samples:
        """Overlap-add of ``spectrum`` to ``length`` samples."""
        return np.asarray(librosa.istft(spectrum, hop_length=self.hop, length=length), np.float32)


def random_grid(random: np.random.Generator) -> Grid:
    """A grid as neural and classical vocoders use them: 32 to 64 ms windows, a quarter or an eighth of that as hop."""
    size = int(random.choice([512, 800, 1024]))
    return Grid(size, size // int(random.choice([4, 4, 5, 8])))


def through_mel(magnitude: Magnitude, grid: Grid, random: np.random.Generator) -> Magnitude:
    """``magnitude`` (bins, frames) reduced to 60 to 100 mel bands and expanded again by the pseudo-inverse."""
    bands = int(random.choice([60, 80, 80, 100]))
    top = float(random.choice([7_600, 8_000]))
    filters = librosa.filters.mel(
        sr=SAMPLE_RATE, n_fft=grid.size, n_mels=bands, fmin=float(random.choice([0, 80])), fmax=top
    )
    inverse = np.linalg.pinv(filters)
    return np.maximum(inverse @ (filters @ magnitude), 1e-5).astype(np.float32)
