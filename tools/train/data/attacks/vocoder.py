"""Copy-synthesis by neural vocoders trained here: speech to its mel spectrogram and back, phases invented.

``python -m tools.train.data.attacks.vocoder NAME`` trains one on the training speech, first on spectra alone, then
against discriminators; it resumes where it stopped.
"""

from __future__ import annotations

import argparse
import json
from functools import cache, partial
from pathlib import Path

import numpy as np
import soxr
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.neural import spectral_loss, training_speech
from tools.train.networks.discriminators import Discriminators, fooling_loss, judging_loss
from tools.train.networks.vocoders import SHAPES, MelSpectrogram, generator
from voiceid.types import SAMPLE_RATE, Samples

SEGMENT = 10_240
"""Samples of a training segment: every vocoder gives back at least as many."""
SPECTRAL_SHARE = 0.65
"""Share of the steps before the discriminators join in."""
SAVE_EVERY = 100
KEPT = Path(__file__).resolve().parents[2] / "checkpoints"
"""Generators kept with the code, in half precision, so that nobody has to train them again."""
NATIVE_RATES = (16_000, 22_050, 24_000)
RATES = {"upsampling": 5e-4, "spectral": 5e-4, "parallel": 2e-3}
"""Highest learning rate by kind; at twice that the spectral kind diverges."""
RMS = 0.05
"""Level at which a vocoder hears: the level policy's -26 dBFS."""


class Trainer:
    """A vocoder in training, its discriminators, and where it stands."""

    def __init__(self, name: str, steps: int, batch: int) -> None:
        torch.manual_seed(0)
        self.path, self.steps, self.step, self.batch = checkpoint(name), steps, 0, batch
        self.rate = RATES[SHAPES[name].kind]
        self.mel = MelSpectrogram(SHAPES[name])
        self.generator, self.discriminators = generator(SHAPES[name]), Discriminators()
        self.optimiser = torch.optim.AdamW(self.generator.parameters(), self.rate, betas=(0.8, 0.99))
        self.judge_optimiser = torch.optim.AdamW(self.discriminators.parameters(), 3e-4, betas=(0.8, 0.99))
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            self.step = state.pop("step")
            for part, weights in state.items():
                getattr(self, part).load_state_dict(weights)

    def run(self, speech: Samples) -> None:
        """Train on random segments of ``speech`` up to the last step."""
        sums: dict[str, float] = {}
        with tqdm(total=self.steps, initial=self.step, desc=self.path.stem, mininterval=10) as progress:
            while self.step < self.steps:
                random = np.random.default_rng(self.step)
                starts = random.integers(0, len(speech) - SEGMENT, self.batch)
                for name, value in self._learn(np.stack([speech[i : i + SEGMENT] for i in starts])).items():
                    sums[name] = sums.get(name, 0.0) + value / SAVE_EVERY
                self.step += 1
                progress.update()
                if self.step % SAVE_EVERY == 0 or self.step == self.steps:
                    progress.write(json.dumps({"step": self.step} | {k: round(v, 3) for k, v in sums.items()}))
                    sums = {}
                    self.save()

    def _learn(self, segments: Samples) -> dict[str, float]:
        real = torch.from_numpy(segments)
        share = self.step / self.steps
        for optimiser, rate in ((self.optimiser, self.rate), (self.judge_optimiser, 3e-4)):
            for group in optimiser.param_groups:
                group["lr"] = rate * min(1.0, (self.step + 1) / 100, 3 * (1 - share) + 0.02)
        mel = self.mel(real)
        with torch.autocast("cpu", torch.bfloat16):
            fake = self.generator(mel)[:, :SEGMENT]
        spectral = spectral_loss(fake[:, None], real[:, None])
        if not torch.isfinite(spectral):
            raise SystemExit(f"{self.path.stem} diverged at step {self.step}; delete {self.path} and lower RATES")
        losses, loss = {"spectral": spectral.item()}, spectral
        if share >= SPECTRAL_SHARE:
            losses["judge"] = self._teach_judges(fake.detach(), real)
            with torch.autocast("cpu", torch.bfloat16):
                with torch.no_grad():
                    wanted = self.discriminators(real)
                fooling = fooling_loss(self.discriminators(fake), wanted)
            losses["fooling"] = fooling.item()
            loss = 3 * spectral + 0.3 * fooling.float()
        _step(self.optimiser, loss)
        return losses

    def _teach_judges(self, fake: Tensor, real: Tensor) -> float:
        with torch.autocast("cpu", torch.bfloat16):
            loss = judging_loss(self.discriminators(fake), self.discriminators(real)).float()
        _step(self.judge_optimiser, loss)
        return loss.item()

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        parts = ("generator", "discriminators", "optimiser", "judge_optimiser")
        partial_path = self.path.with_suffix(".partial")
        torch.save({"step": self.step} | {part: getattr(self, part).state_dict() for part in parts}, partial_path)
        partial_path.replace(self.path)


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for group in optimiser.param_groups for p in group["params"]], 1.0)
    optimiser.step()


def copier(name: str) -> partial[Samples]:
    """The copy-synthesis system of the vocoder ``name``."""
    return partial(_copy, name)


@torch.inference_mode()
def _copy(name: str, samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy: as by a vocoder of a random native rate, which puts its traces at other frequencies,
    and now and then from a spectrogram as blurred as a synthesizer predicts it."""
    mel, vocoder = load_vocoder(name)
    rate = int(random.choice(NATIVE_RATES))
    native = soxr.resample(samples, SAMPLE_RATE, rate)
    gain = np.float32(RMS / (float(np.sqrt(np.mean(samples**2))) + 1e-6))
    spectrogram = mel(torch.from_numpy(native * gain)[None])
    if random.random() < 0.3:
        spectrogram = F.avg_pool1d(spectrogram, 3, 1, 1, count_include_pad=False)
    copy = soxr.resample(vocoder(spectrogram)[0].numpy() / gain, rate, SAMPLE_RATE)[: len(samples)]
    return np.pad(copy, (0, len(samples) - len(copy))).astype(np.float32)


@cache
def load_vocoder(name: str) -> tuple[MelSpectrogram, torch.nn.Module]:
    """The spectrogram that the trained vocoder ``name`` hears, and its generator.

    Raises:
        SystemExit: it was not trained yet.
    """
    vocoder = generator(SHAPES[name])
    vocoder.load_state_dict(torch.load(trained(name), weights_only=True)["generator"])
    return MelSpectrogram(SHAPES[name]), vocoder.eval().requires_grad_(False)


def trained(name: str) -> Path:
    """The weights of the vocoder ``name``: those trained here, else those kept with the code.

    Raises:
        SystemExit: there are none.
    """
    for path in (checkpoint(name), KEPT / f"vocoder-{name}.pt"):
        if path.exists():
            return path
    raise SystemExit(
        f"{checkpoint(name)}: no such vocoder; run python -m tools.train.data.attacks.vocoder {name} first"
    )


def checkpoint(name: str) -> Path:
    """Where the vocoder ``name`` is kept."""
    return attack_folder("vocoders") / f"{name}.pt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(SHAPES), metavar="NAME", help=", ".join(SHAPES))
    parser.add_argument("--steps", type=int, default=4_000, help="of each (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="segments of a step (default: %(default)s)")
    parser.add_argument("--clips", type=int, default=2_000, help="of training speech (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    speech = training_speech(clips=arguments.clips)
    for name in arguments.names:
        Trainer(name, arguments.steps, arguments.batch).run(speech)


if __name__ == "__main__":
    main()
