"""What resynthesizes an utterance, in torch: gradients pass where they exist, and are passed on where they do not.

``gl-lin``, ``gl-mel``: Griffin-Lim, 100 iterations, from the linear spectrogram or 80 mel bands. ``vocoder-NAME``: a
vocoder trained by ``tools.train.data.attacks.vocoder``. ``melgan``: one trained by others. ``coder``: a small neural
waveform coder. ``lowpass-HZ``, ``quantise-BITS``: the cheapest there are.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import librosa
import numpy as np
import torch
from torch import Tensor

from tools.studies.errors import StudyError
from tools.train.data.attacks import griffin_lim, melgan, neural
from tools.train.data.attacks.stft import Grid
from tools.train.data.attacks.vocoder import load_vocoder, trained
from tools.train.networks.vocoders import SHAPES, MelSpectrogram
from voiceid.types import SAMPLE_RATE, Samples

Transform = Callable[[Tensor], Tensor]
"""Utterance (n,) at the policy's level to its copy (n,); gradients pass."""
GRID = Grid(800, 200)
ITERATIONS = 100
MEL_BANDS, MEL_HERTZ = 80, (80.0, 7_600.0)
TAPS = 129
"""Of the low-pass filter."""
VOCODER = "vocoder-"
PLAIN = ("gl-lin", "gl-mel", "melgan", "coder")
NUMBERED = {"lowpass-": "HZ", "quantise-": "BITS"}


@lru_cache(maxsize=16)
def load_transform(name: str) -> Transform:
    """The transform of that name.

    Raises:
        StudyError: unknown, a number that makes no sense, or a vocoder that was not trained yet.
    """
    if name in ("gl-lin", "gl-mel"):
        return GriffinLim(mel=name == "gl-mel")
    if name == "melgan":
        return Opaque(melgan.copy)
    if name == "coder":
        return Opaque(_coded)
    if name.startswith(VOCODER) and (shape := name.removeprefix(VOCODER)) in SHAPES:
        try:
            return Vocoder(*load_vocoder(shape))
        except SystemExit as error:
            raise StudyError(str(error)) from error
    if name.startswith("lowpass-"):
        return LowPass(_number(name, 100, SAMPLE_RATE // 2 - 1))
    if name.startswith("quantise-"):
        return Quantise(_number(name, 2, 15))
    known = (*PLAIN, *(f"{VOCODER}{shape}" for shape in SHAPES), *(f"{a}{b}" for a, b in NUMBERED.items()))
    raise StudyError(f"no transform {name!r}; there are {', '.join(known)}")


def fingerprint(name: str) -> str:
    """What tells the copies of a transform from those of another: its name and, of a vocoder, its weights.

    Raises:
        StudyError: as :func:`load_transform`.
    """
    load_transform(name)
    if not name.startswith(VOCODER):
        return name
    weights = trained(name.removeprefix(VOCODER)).read_bytes()
    return f"{name} {hashlib.sha256(weights).hexdigest()}"


@dataclass(frozen=True, slots=True)
class GriffinLim:
    """Magnitudes with the phases that Griffin-Lim finds; the gradient goes through the magnitudes, phases held."""

    mel: bool

    def __call__(self, utterance: Tensor) -> Tensor:
        window = torch.hann_window(GRID.size)
        spectrum = self._analyse(utterance, window).abs()
        if self.mel:
            filters, inverse = _mel_filters()
            spectrum = (inverse @ (filters @ spectrum)).clamp_min(1e-5)
        with torch.no_grad():
            random = np.random.default_rng(0)
            found = griffin_lim.reconstruct(spectrum.detach().numpy(), GRID, len(utterance), ITERATIONS, random)
            phase = self._analyse(torch.from_numpy(found), window).angle()
        return torch.istft(torch.polar(spectrum, phase), GRID.size, GRID.hop, window=window, length=len(utterance))

    @staticmethod
    def _analyse(waveform: Tensor, window: Tensor) -> Tensor:
        return torch.stft(waveform, GRID.size, GRID.hop, window=window, pad_mode="constant", return_complex=True)


@dataclass(frozen=True, slots=True)
class Vocoder:
    """The spectrogram that a vocoder hears, and the waveform that it makes of it; the gradient goes through both."""

    mel: MelSpectrogram
    generator: torch.nn.Module

    def __call__(self, utterance: Tensor) -> Tensor:
        return _fitted(self.generator(self.mel(utterance[None]))[0], len(utterance))


@dataclass(frozen=True, slots=True)
class Opaque:
    """A copy made outside torch, seeded by what it copies; its gradient is taken for the identity (BPDA)."""

    copy: Callable[[Samples, np.random.Generator], Samples]

    def __call__(self, utterance: Tensor) -> Tensor:
        samples = utterance.detach().numpy()
        random = np.random.default_rng(zlib.crc32(samples.tobytes()))
        return _passed_on(utterance, torch.from_numpy(self.copy(samples, random)))


@dataclass(frozen=True, slots=True)
class LowPass:
    """A windowed-sinc filter of linear phase; everything above ``hertz`` is lost."""

    hertz: int

    def __call__(self, utterance: Tensor) -> Tensor:
        return torch.nn.functional.conv1d(utterance[None, None], self.kernel(), padding=TAPS // 2)[0, 0]

    def kernel(self) -> Tensor:
        """Its taps, as a convolution takes them: (1, 1, taps)."""
        at = torch.arange(TAPS) - TAPS // 2
        taps = torch.sinc(2 * self.hertz / SAMPLE_RATE * at) * torch.hann_window(TAPS, periodic=False)
        return (taps / taps.sum())[None, None]


@dataclass(frozen=True, slots=True)
class Quantise:
    """Samples rounded to so many bits of full scale; the gradient is taken for the identity (BPDA)."""

    bits: int

    def __call__(self, utterance: Tensor) -> Tensor:
        steps = 2 ** (self.bits - 1)
        return _passed_on(utterance, (utterance.detach() * steps).round() / steps)


def _passed_on(utterance: Tensor, copy: Tensor) -> Tensor:
    """``copy`` with the gradient of ``utterance``."""
    return copy + utterance - utterance.detach()


def _fitted(copy: Tensor, length: int) -> Tensor:
    return torch.nn.functional.pad(copy[:length], (0, max(0, length - len(copy))))


@lru_cache(maxsize=1)
def _mel_filters() -> tuple[Tensor, Tensor]:
    low, high = MEL_HERTZ
    filters = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=GRID.size, n_mels=MEL_BANDS, fmin=low, fmax=high)
    return torch.from_numpy(filters), torch.from_numpy(np.linalg.pinv(filters).astype(np.float32))


def _coded(samples: Samples, _: np.random.Generator) -> Samples:
    """The copy by the first of the trained coders, its code undisturbed."""
    try:
        return neural.code_and_decode(samples, neural.TRAIN_SEEDS[0])
    except SystemExit as error:
        raise StudyError(str(error)) from error


def _number(name: str, least: int, most: int) -> int:
    text = name.rpartition("-")[2]
    if not text.isdigit() or not least <= int(text) <= most:
        raise StudyError(f"transform {name!r}: {text!r} is not a number from {least} to {most}")
    return int(text)
