"""Speech from discrete units, so that people and recognisers can hear what is sent: one voice for everybody.

A linear map from the units around a frame to its log-mel spectrum, learnt from people outside the study, then the
Griffin-Lim algorithm. It has no pitch of its own and is no neural vocoder: error rates on it bound from above what
the units hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import librosa
import numpy as np
from numpy.typing import NDArray

from tools.train.data.attacks.griffin_lim import reconstruct
from tools.train.data.attacks.stft import Grid
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.packing import UnitSequence, merge_runs
from voiceid.units.tokenizer import HOP, Units

Floats = NDArray[np.float64]
GRID = Grid(1024, HOP)
"""One spectrum a unit."""
BANDS = 80
REACH = 6
"""Units before and after the one whose spectrum is told."""
RIDGE = 10.0
FLOOR = 1e-4
ITERATIONS = 60


@dataclass(frozen=True, slots=True)
class UnitVoice:
    """``weights`` (contexts, bands) and ``bias`` (bands,) give log-mel spectra; ``durations`` (codebook,) are mean
    run lengths in frames, for profiles that share none."""

    codebook: int
    weights: Floats
    bias: Floats
    durations: Floats

    def speak(self, sequence: UnitSequence, random: np.random.Generator) -> Samples:
        """``sequence`` as a waveform of :data:`HOP` samples a frame.

        Raises:
            ValueError: another codebook, or no units.
        """
        if sequence.codebook != self.codebook or not sequence.units:
            raise ValueError(
                f"{len(sequence.units)} units of codebook {sequence.codebook}; this voice speaks {self.codebook}"
            )
        frames = self.frames(sequence)
        mel = np.exp(self.weights[_contexts(frames, self.codebook)].sum(axis=1) + self.bias)
        magnitude = np.maximum(np.linalg.pinv(_filters()) @ mel.T, 0.0).astype(np.float32)
        magnitude = np.pad(magnitude, ((0, 0), (0, 1)), mode="edge")  # frames are centred: one more than hops
        return reconstruct(magnitude, GRID, len(frames) * HOP, ITERATIONS, random)

    def frames(self, sequence: UnitSequence) -> Units:
        """One unit a frame; runs of unknown length get their unit's mean length."""
        units = np.asarray(sequence.frames(), np.int16)
        if sequence.merged and sequence.durations is None:
            return np.repeat(units, np.maximum(1, np.rint(self.durations[units])).astype(int))
        return units


def learn(pairs: Iterable[tuple[Units, Samples]], codebook: int) -> UnitVoice:
    """Fit the voice on ``pairs`` of units (t,) and the prepared samples (n,) that they were made from.

    Raises:
        ValueError: no speech.
    """
    size = codebook * (2 * REACH + 1) + 1
    gram, moment = np.zeros((size, size)), np.zeros((size, BANDS))
    counts, runs = np.zeros(codebook, np.int64), np.zeros(codebook, np.int64)
    for units, samples in pairs:
        mel = log_mel(samples)
        length = min(len(units), len(mel))
        ones = np.pad(_contexts(units[:length], codebook), ((0, 0), (0, 1)), constant_values=size - 1)
        np.add.at(gram, (ones[:, :, None], ones[:, None, :]), 1.0)
        np.add.at(moment, ones, mel[:length, None, :])
        ids, _ = merge_runs(units.tolist())
        counts += np.bincount(units, minlength=codebook)
        runs += np.bincount(ids, minlength=codebook)
    if not counts.any():
        raise ValueError("no speech to learn the voice of units from")
    penalty = np.full(size, RIDGE)
    penalty[-1] = 0.0
    solution = np.linalg.solve(gram + np.diag(penalty), moment)
    return UnitVoice(codebook, solution[:-1], solution[-1], counts / np.maximum(runs, 1))


def log_mel(samples: Samples) -> Floats:
    """Log-mel magnitudes of prepared samples, a row a unit: (t, bands)."""
    magnitude = np.abs(GRID.analyse(samples)).astype(np.float64)
    mel: Floats = np.log(np.maximum(_filters() @ magnitude, FLOOR)).T
    return mel


def _contexts(units: Units, codebook: int) -> NDArray[np.int64]:
    """Which of codebook * (2 * REACH + 1) indicators are 1 at each frame, one for each unit around it: (t, 2 * REACH
    + 1); the ends are repeated."""
    padded = np.pad(np.asarray(units, np.int64), REACH, mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * REACH + 1)
    return around + codebook * np.arange(2 * REACH + 1)


def _filters() -> Floats:
    return np.asarray(librosa.filters.mel(sr=SAMPLE_RATE, n_fft=GRID.size, n_mels=BANDS), np.float64)
