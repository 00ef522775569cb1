"""Speech in another voice: pitch and formants moved, each by its own factor.

Few people are in the training speech, and a student hears how its teacher places voices only where there are voices:
moved ones fill the gaps. Resampling moves pitch and formants together; warping the spectral envelope moves the formants
alone (Jaitly and Hinton, "Vocal Tract Length Perturbation", 2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import soxr

from tools.train.data.attacks.stft import Grid
from voiceid.types import SAMPLE_RATE, Samples

GRID = Grid(1024, 256)
QUEFRENCIES = 48
"""Cepstral coefficients of the envelope: up to 3 ms, short of any voice's pitch period."""
LIMIT = np.log(10.0)
"""Largest change of an envelope: 20 dB."""


@dataclass(frozen=True, slots=True)
class Move:
    """Factors on pitch and formants together, then on formants alone; (1, 1) is the voice itself."""

    speed: float
    formants: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> Move:
        """Within what people's voices span: speed by up to 25 %, formants by up to 15 %."""
        return cls(*(float(np.exp(random.uniform(-width, width))) for width in (0.22, 0.14)))


def other_voice(samples: Samples, move: Move) -> Samples:
    """float32 (n,) at 16 kHz in the voice that ``move`` makes of it: about n / speed samples."""
    moved = soxr.resample(samples, SAMPLE_RATE * move.speed, SAMPLE_RATE).astype(np.float32)
    spectrum = GRID.analyse(moved)
    level = np.log(np.abs(spectrum) + 1e-5)
    envelope = _smoothed(level)
    bins = np.arange(envelope.shape[0])
    warped = np.stack([np.interp(bins / move.formants, bins, column) for column in envelope.T], axis=1)
    gain = np.exp(np.clip(warped - envelope, -LIMIT, LIMIT))
    return GRID.synthesise(spectrum * gain, len(moved))


def _smoothed(level: np.ndarray) -> np.ndarray:
    """The part of log magnitudes (bins, frames) that varies slowly over frequency."""
    cepstrum = np.fft.irfft(level, axis=0)
    cepstrum[QUEFRENCIES : len(cepstrum) - QUEFRENCIES + 1] = 0
    return np.fft.rfft(cepstrum, axis=0).real
