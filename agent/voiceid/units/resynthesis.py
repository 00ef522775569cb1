"""Units back to sound, in one fixed voice: so that people can hear what units say, and what they do not.

A small network turns units into spectral envelopes; a vocoder of pulses and noise gives them sound. Its pitch is one
constant, because units carry none. The model is no part of the pipeline and is loaded only when somebody asks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceid.audio.level import apply_level
from voiceid.errors import ModelError
from voiceid.models.session import Session
from voiceid.models.store import VerifiedModel
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.tokenizer import HOP, Tokenizer, Units

WINDOW = 512
Matrix = NDArray[np.float32]


class Resynthesizer:
    """The resynthesis role.

    The graph takes ``units`` (1, T) and gives ``gain`` (1, T, 257), the amplitude of a source of power one in each bin,
    and ``voicing`` (1, T) in [0, 1]. Card parameters: ``codebook`` and ``codebook_hash`` (hex) say which units are
    taken, ``pitch`` (Hz) and ``voiced_below`` (Hz, above which all is noise) describe the voice.
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: not a loadable model, or its card lacks a parameter or has other inputs and outputs.
        """
        self._session = Session(model, threads=threads)
        self.card = model.card
        try:
            self.codebook = int(self.card.parameters["codebook"])
            self._hash = bytes.fromhex(self.card.parameters["codebook_hash"])
            self._pitch = float(self.card.parameters["pitch"])
            self._voiced_below = float(self.card.parameters["voiced_below"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"card {self.card.name!r} is not a resynthesis card: {error}") from error
        if set(self.card.inputs) != {"units"} or set(self.card.outputs) != {"gain", "voicing"}:
            raise ModelError(f"card {self.card.name!r}: resynthesis turns 'units' into 'gain' and 'voicing'")

    def check(self, tokenizer: Tokenizer, codebook: int) -> None:
        """Refuse units that would be taken for others.

        Raises:
            ModelError: this model was made for another codebook than ``codebook`` of ``tokenizer``.
        """
        if codebook != self.codebook:
            raise ModelError(f"card {self.card.name!r} takes units of codebook {self.codebook}, not {codebook}")
        if tokenizer.codebook_hash(codebook) != self._hash:
            raise ModelError(
                f"card {self.card.name!r} was made for other units than those of card {tokenizer.card.name!r} "
                f"{tokenizer.card.version}; use the resynthesis card that came with it"
            )

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
        period = SAMPLE_RATE / self._pitch
        pulses[np.arange(0, total, period).astype(np.int64)] = np.sqrt(period)
        noise = np.random.default_rng(0).standard_normal(total).astype(np.float32)
        hertz = np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE)
        share = voicing[:, None] / (1 + np.exp((hertz - self._voiced_below) / 400))
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
