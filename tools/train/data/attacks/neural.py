"""Small neural waveform coders, trained here, whose decoders leave what upsampling networks leave.

A vocoder of HiFi-GAN's quality needs days on a GPU. A convolutional autoencoder with the same kind of decoder
(transposed or nearest-neighbour upsampling, dilated residual blocks) and a narrow code learns to copy speech within a
minute, and its traces (images, periodic gain, smeared harmonics, wrong phase) are of the same family. Each seed is
another architecture. ``python -m tools.train.data.attacks.neural`` trains them all on training speech.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.data.attacks.cache import attack_folder
from tools.train.data.corpus import read_index
from voiceid.audio import prepare, read_waveform
from voiceid.types import Samples

STRIDES = ((4, 4, 4), (2, 4, 8), (8, 8), (5, 4, 4), (8, 4, 2), (4, 5, 2))
TRAIN_SEEDS, DEV_SEEDS = range(4), range(4, 5)
SEGMENT = 8_000
BATCH = 4


@dataclass(frozen=True)
class CoderShape:
    """Strides of the encoder, channels at its top, size of the code, and how the decoder upsamples."""

    strides: tuple[int, ...]
    width: int
    code: int
    transposed: bool

    @classmethod
    def of(cls, seed: int) -> CoderShape:
        random = np.random.default_rng(seed)
        width, code = int(random.choice([6, 8, 12])), int(random.choice([8, 12, 16, 24]))
        return cls(STRIDES[seed % len(STRIDES)], width, code, seed % 3 != 2)


class Residual(nn.Module):
    """Two dilated convolutions with a skip: (b, c, t) to the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=d, dilation=d) for d in (1, 3))

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Coder(nn.Module):
    """Waveform (b, 1, t) to its copy (b, 1, t); t a multiple of the strides' product."""

    def __init__(self, shape: CoderShape) -> None:
        super().__init__()
        channels = [shape.width * 2**i for i in range(len(shape.strides) + 1)]
        steps = list(zip(channels, channels[1:], shape.strides, strict=False))
        down = [layer for a, b, s in steps for layer in (nn.Conv1d(a, b, 2 * s + 1, s, s), nn.LeakyReLU(0.1))]
        self.encoder = nn.Sequential(
            nn.Conv1d(1, channels[0], 7, padding=3), *down, nn.Conv1d(channels[-1], shape.code, 3, padding=1)
        )
        up: list[nn.Module] = [nn.Conv1d(shape.code, channels[-1], 3, padding=1)]
        for a, b, s in reversed(steps):
            if shape.transposed:
                up += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(b, a, 2 * s, s, (s + 1) // 2, s % 2), Residual(a)]
            else:
                up += [nn.LeakyReLU(0.1), nn.Upsample(scale_factor=s), nn.Conv1d(b, a, 7, padding=3), Residual(a)]
        self.decoder = nn.Sequential(*up, nn.LeakyReLU(0.1), nn.Conv1d(channels[0], 1, 7, padding=3))
        self.stride = int(np.prod(shape.strides))

    def forward(self, waveform: Tensor) -> Tensor:
        code = torch.tanh(self.encoder(waveform))
        if self.training:
            code = code + 0.05 * torch.randn_like(code)
        return self.decoder(code)


def spectral_loss(copy: Tensor, target: Tensor) -> Tensor:
    """Mean log-magnitude and relative magnitude difference over three resolutions (Yamamoto et al., 2020)."""
    total = torch.zeros(())
    for size in (256, 512, 1024):
        window = torch.hann_window(size)
        a, b = (
            torch.stft(x.squeeze(1), size, size // 4, window=window, return_complex=True).abs().clamp_min(1e-4)
            for x in (copy, target)
        )
        total = total + (a.log() - b.log()).abs().mean() + (a - b).norm() / b.norm()
    return total / 3


def train_coder(seed: int, steps: int, speech: Samples) -> Coder:
    """Train the coder of ``seed`` on random half-second segments of ``speech``."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    coder = Coder(CoderShape.of(seed))
    optimiser = torch.optim.Adam(coder.parameters(), 2e-3, betas=(0.8, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    length = SEGMENT // coder.stride * coder.stride
    for _ in tqdm(range(steps), desc=f"coder {seed}", mininterval=5):
        starts = random.integers(0, len(speech) - length, BATCH)
        batch = torch.from_numpy(np.stack([speech[start : start + length] for start in starts])).unsqueeze(1)
        copy = coder(batch)
        loss = spectral_loss(copy, batch) + 20 * F.l1_loss(copy, batch)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(coder.parameters(), 5.0)
        optimiser.step()
        schedule.step()
    return coder


def copy(samples: Samples, random: np.random.Generator) -> Samples:
    """A copy by one of the training coders, its code disturbed by up to 10 %."""
    return _copy(samples, random, TRAIN_SEEDS)


def dev_copy(samples: Samples, random: np.random.Generator) -> Samples:
    """A copy by one of the coders kept for development."""
    return _copy(samples, random, DEV_SEEDS)


def _copy(samples: Samples, random: np.random.Generator, seeds: range) -> Samples:
    coder = _load(int(random.choice(list(seeds))))

    def disturb(code: Tensor) -> Tensor:
        return code + random.uniform(0, 0.1) * torch.from_numpy(random.standard_normal(code.shape)).float()

    return _through(coder, samples, disturb)


def code_and_decode(samples: Samples, seed: int) -> Samples:
    """The copy by the coder of ``seed``, its code undisturbed."""
    return _through(_load(seed), samples, lambda code: code)


def _through(coder: Coder, samples: Samples, change: Callable[[Tensor], Tensor]) -> Samples:
    """Encode ``samples`` at the level of training, ``change`` the code, and decode it."""
    gain = 0.05 / (float(np.sqrt(np.mean(samples**2))) + 1e-6)
    padded = np.pad(samples * np.float32(gain), (0, -len(samples) % coder.stride))
    with torch.inference_mode():
        code = torch.tanh(coder.encoder(torch.from_numpy(padded)[None, None]))
        decoded = coder.decoder(change(code))[0, 0].numpy()
    return (decoded[: len(samples)] / gain).astype(np.float32)


@cache
def _load(seed: int) -> Coder:
    path = _checkpoint(seed)
    if not path.exists():
        raise SystemExit(f"{path}: no such coder; run python -m tools.train.data.attacks.neural first")
    coder = Coder(CoderShape.of(seed))
    coder.load_state_dict(torch.load(path, weights_only=True))
    return coder.eval()


def _checkpoint(seed: int) -> Path:
    return attack_folder("neural-coders") / f"{seed}.pt"


def training_speech(seed: int = 0, clips: int = 250) -> Samples:
    """Training speech, joined: every set by its share of clips, at the level policy."""
    items = [item for item in read_index() if item.split == "train" and item.kind == "bonafide" and item.seconds > 2]
    chosen = np.random.default_rng(seed).permutation(len(items))[:clips]
    return np.concatenate([prepare(read_waveform(items[i].path)).samples for i in chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=250, help="per coder (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    speech = training_speech()
    for seed in (*TRAIN_SEEDS, *DEV_SEEDS):
        if not _checkpoint(seed).exists():
            torch.save(train_coder(seed, arguments.steps, speech).state_dict(), _checkpoint(seed))


if __name__ == "__main__":
    main()
