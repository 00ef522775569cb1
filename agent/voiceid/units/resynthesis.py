"""Units back to sound, in one fixed voice: so that people can hear what units say, and what they do not.

A small network turns units into spectral envelopes; a vocoder of pulses and noise gives them sound. Its pitch is one
constant, because units carry none. The model is no part of the pipeline and is loaded only when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceid.audio.level import apply_level
from voiceid.errors import ModelError
from voiceid.models.session import Session
from voiceid.models.store import VerifiedModel
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.codebook import CodebookPin
from voiceid.units.tokenizer import HOP, Tokenizer, Units

WINDOW = 512
Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ResynthesisParameters(CodebookPin):
    """Parameters of the card: the units that are taken, and the voice."""

    pitch: float
    """Hz."""
    voiced_below: float
    """Hz, above which all is noise."""


class Resynthesizer:
    """The resynthesis role.

    The graph takes ``units`` (1, T) and gives ``gain`` (1, T, 257), the amplitude of a source of power one in each bin,
    and ``voicing`` (1, T) in [0, 1]. For the card's parameters see :class:`ResynthesisParameters`.
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: not a loadable model, or its card lacks a parameter or has other inputs and outputs.
        """
        self._session = Session(model, threads=threads)
        self.card = model.card
        self.parameters = self.card.parameters_as(ResynthesisParameters)
        if set(self.card.inputs) != {"units"} or set(self.card.outputs) != {"gain", "voicing"}:
            raise ModelError(f"card {self.card.name!r}: resynthesis turns 'units' into 'gain' and 'voicing'")

    @property
    def codebook(self) -> int:
        """Number of different units that it takes."""
        return self.parameters.codebook

    def check(self, tokenizer: Tokenizer) -> None:
        """Refuse ``tokenizer``'s units where they would be taken for others.

        Raises:
            CodebookError: this model was made for other units.
        """
        self.parameters.check(self.codebook, tokenizer.codebook_hash(self.codebook), model=self.card.name)

    def __call__(self, units: Units) -> Samples:
        """Speech of ``units``, one a frame of 10 ms: (T,) to float32 (160 T,) at the level policy."""
        if not len(units):
            return np.zeros(0, np.float32)
        spoken = self._session.run(units=np.asarray(units, np.int64)[None])
        return apply_level(self._vocoder(spoken["gain"][0], spoken["voicing"][0]), ())

    def _vocoder(self, gain: Matrix, voicing: Matrix) -> Samples:
        length, margin = len(gain) * HOP, (WINDOW - HOP) // 2
        hann = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
        total = length + 2 * margin
        pulses = np.zeros(total, np.float32)
        period = SAMPLE_RATE / self.parameters.pitch
        pulses[np.arange(0, total, period).astype(np.int64)] = np.sqrt(period)
        noise = np.random.default_rng(0).standard_normal(total).astype(np.float32)
        hertz = np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE)
        share = voicing[:, None] / (1 + np.exp((hertz - self.parameters.voiced_below) / 400))
        spectrum = np.sqrt(share) * _spectra(pulses, hann) + np.sqrt(1 - share) * _spectra(noise, hann)
        pieces: Matrix = np.fft.irfft(spectrum * gain, WINDOW).astype(np.float32) * hann
        sound, weight = np.zeros(total, np.float32), np.zeros(total, np.float32)
        for t in range(len(gain)):
            sound[t * HOP : t * HOP + WINDOW] += pieces[t]
            weight[t * HOP : t * HOP + WINDOW] += hann**2
        return np.asarray(sound / np.maximum(weight, 1e-3), np.float32)[margin : margin + length]


def _spectra(signal: Samples, window: Matrix) -> NDArray[np.complex64]:
    """Of each frame: (HOP (T - 1) + WINDOW,) to (T, 257)."""
    frames = np.lib.stride_tricks.sliding_window_view(signal, WINDOW)[::HOP]
    return np.fft.rfft(frames * window).astype(np.complex64)
