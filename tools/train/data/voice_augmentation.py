"""Augmentation of batches of speech: rooms, colouration, band limits, noise and babble, by one filter and one sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tools.train.data.corpus import read_index
from voiceid.audio import read_waveform
from voiceid.audio.level import apply_level
from voiceid.types import SAMPLE_RATE, Samples

Batch = NDArray[np.float32]
SNR_DB = (3.0, 25.0)
REVERBERATION_SECONDS = (0.1, 0.7)
"""Range of RT60 of the synthetic rooms."""


@dataclass(frozen=True, slots=True)
class Augmenter:
    """Recorded training noises and impulse responses beside synthetic ones; everything random comes from the caller."""

    noises: tuple[Samples, ...]
    rooms: tuple[Samples, ...]
    probability: float = 0.5
    """Share of clips that each of filtering and noise is applied to."""

    @classmethod
    def from_corpus(cls) -> Augmenter:
        """With the noises and impulse responses of the corpus's training split."""
        items = [item for item in read_index() if item.split == "train" and item.kind in ("noise", "rir")]
        recordings = {
            kind: tuple(read_waveform(i.path).samples for i in items if i.kind == kind) for kind in ("noise", "rir")
        }
        return cls(recordings["noise"], recordings["rir"])

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Augment (B, n) float32 at 16 kHz; every clip leaves at the level policy."""
        count, length = batch.shape
        size = int(fft.next_fast_len(length + SAMPLE_RATE // 2, real=True))
        filters = np.ones((count, size // 2 + 1), np.complex64)
        for row in np.flatnonzero(rng.random(count) < self.probability):
            filters[row] = self._room(size, rng) * colouration(size, rng)
        wet = fft.irfft(fft.rfft(batch, size, axis=1) * filters, size, axis=1)[:, :length]
        for row in np.flatnonzero(rng.random(count) < self.probability):
            noise = self._noise(batch, int(row), rng)
            ratio = 10 ** (rng.uniform(*SNR_DB) / 20)
            wet[row] += noise * (np.sqrt(np.mean(wet[row] ** 2) / max(float(np.mean(noise**2)), 1e-12)) / ratio)
        return np.stack([apply_level(clip, ()) for clip in wet])

    def _room(self, size: int, rng: np.random.Generator) -> NDArray[np.complex64]:
        choice = rng.random()
        if choice < 0.35:
            return np.ones(size // 2 + 1, np.complex64)
        if choice < 0.6 and self.rooms:
            response = self.rooms[rng.integers(len(self.rooms))][: SAMPLE_RATE // 2]
            response = response[np.argmax(np.abs(response)) :]
        else:
            response = synthetic_room(rng)
        spectrum: NDArray[np.complex64] = fft.rfft(response, size).astype(np.complex64)
        return spectrum

    def _noise(self, batch: Batch, row: int, rng: np.random.Generator) -> Samples:
        length = batch.shape[1]
        choice = rng.random()
        if choice < 0.35 and self.noises:
            noise = self.noises[rng.integers(len(self.noises))]
            start = int(rng.integers(max(1, len(noise) - length)))
            return np.resize(noise[start : start + length], length)
        if choice < 0.55 and len(batch) > 4:
            others = rng.choice([i for i in range(len(batch)) if i != row], size=4, replace=False)
            babble: Samples = batch[others].sum(axis=0)
            return babble
        return coloured_noise(length, rng)


def synthetic_room(rng: np.random.Generator) -> Samples:
    """Impulse response of a diffuse field that decays exponentially (Polack's model) behind a direct path of one."""
    reverberation = rng.uniform(*REVERBERATION_SECONDS)
    time = np.arange(int(min(reverberation, 0.5) * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(time)) * 10 ** (-3 * time / reverberation)
    tail[: int(rng.uniform(0.001, 0.01) * SAMPLE_RATE)] = 0
    tail *= 10 ** (-rng.uniform(-3, 12) / 20) / max(float(np.sqrt(np.sum(tail**2))), 1e-9)
    tail[0] = 1
    return tail.astype(np.float32)


def colouration(size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Zero-phase gain over ``size // 2 + 1`` bins: a smooth curve of up to +-8 dB, often with a band limit."""
    bins = np.linspace(0, 1, size // 2 + 1)
    gain = 10 ** (np.interp(bins, np.linspace(0, 1, 7) ** 2, rng.uniform(-8, 8, 7)) / 20)
    hertz = bins * SAMPLE_RATE / 2
    if rng.random() < 0.35:
        gain /= np.sqrt(1 + (hertz / rng.uniform(3200, 7500)) ** 16)
    if rng.random() < 0.35:
        gain /= np.sqrt(1 + (rng.uniform(60, 350) / np.maximum(hertz, 1)) ** 6)
    return gain.astype(np.float32)


def coloured_noise(length: int, rng: np.random.Generator) -> Samples:
    """Gaussian noise with a spectrum between white and brown."""
    bins = length // 2 + 1
    spectrum = rng.standard_normal(bins) + 1j * rng.standard_normal(bins)
    spectrum /= np.maximum(np.arange(bins), 20) ** rng.uniform(0, 1)
    noise: Samples = fft.irfft(spectrum.astype(np.complex64), length).astype(np.float32)
    return noise
