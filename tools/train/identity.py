"""Train the identity model: a narrow ResCNN that learns CAM++'s speaker space, and to tell the labelled speakers apart.

Every batch holds crops of one random length, 0.9 to 2.8 s, mostly augmented. Three losses: the cosine distance to the
teacher's centred embedding of the clean utterance (averaged with its speaker's mean where the speaker is known), the
difference of the similarities within the batch, and, from a later step on, additive angular margin softmax over the
labelled speakers (Deng et al., 2019).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from tools.train.data.voice_augmentation import Augmenter
from tools.train.data.voices import Bank, open_bank
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from tools.train.teachers.campplus import DIMENSION, cache_folder
from tools.train.unfold import unfold
from voiceid.features.mel import deep_speaker_fbank, log_mel
from voiceid.types import SAMPLE_RATE

CROP_SECONDS = (0.9, 2.8)
FULL_CLIPS = 4
"""A speaker with more clips is drawn no more often than with these: voices count, not recordings."""
MIN_CLIPS = 2
"""A speaker with fewer clips that the teacher heard has no label."""
FRONT_ENDS = {"log-mel": log_mel, "deep-speaker-fbank": deep_speaker_fbank}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a run learns."""

    channels: tuple[int, int, int, int] = (16, 32, 96, 128)
    frontend: str = "log-mel"
    steps: int = 4000
    batch: int = 32
    rate: float = 2e-3
    weight_decay: float = 1e-4
    relational: float = 2.0
    margin_weight: float = 0.1
    margin: float = 0.2
    margin_scale: float = 24.0
    margin_from: float = 0.5
    """Share of the steps after which the speaker labels join in."""
    averaging: float = 0.99
    seed: int = 1


class Voices:
    """All banks as one pool of training crops with their targets."""

    def __init__(self, banks: list[Bank]) -> None:
        self.banks = banks
        embeddings = np.concatenate([bank.teacher for bank in banks])
        names = np.array([clip.speaker for bank in banks for clip in bank.clips])
        heard = np.isfinite(embeddings[:, 0])
        self.mean = _unit(embeddings[heard]).mean(axis=0)
        """Mean of the teacher's unit embeddings: subtracted from targets."""
        targets = _unit(_unit(embeddings) - self.mean)
        labels = np.full(len(names), -1)
        self.speakers = [
            str(name)
            for name, count in zip(*np.unique(names[heard], return_counts=True), strict=True)
            if name and count >= MIN_CLIPS
        ]
        self.centres = np.zeros((len(self.speakers), DIMENSION), np.float32)
        for label, speaker in enumerate(self.speakers):
            rows = np.flatnonzero(names == speaker)
            labels[rows] = label
            centre = self.centres[label] = _unit(targets[rows[heard[rows]]].mean(axis=0))
            targets[rows] = np.where(heard[rows, None], _unit(targets[rows] + centre), centre)
        kept = np.flatnonzero(np.isfinite(targets[:, 0]))
        self.targets, self.labels = targets[kept], labels[kept]
        pairs = [(b, c) for b, bank in enumerate(banks) for c in range(len(bank.clips))]
        self.entries = [pairs[i] for i in kept]
        seconds = np.array([banks[b].clips[c].length for b, c in self.entries]) / SAMPLE_RATE
        weights = np.clip(seconds, 0.7, 6.0)
        _, voice, clips = np.unique(names[kept], return_inverse=True, return_counts=True)
        weights[names[kept] != ""] *= np.minimum(1, FULL_CLIPS / clips[voice])[names[kept] != ""]
        self.weights = weights / weights.sum()
        self.hours = float(seconds.sum() / 3600)

    def draw(self, count: int, length: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """``count`` entries by duration and voice, and a crop of ``length`` samples of each (short clips repeat)."""
        chosen = rng.choice(len(self.entries), size=count, p=self.weights)
        crops = np.empty((count, length), np.float32)
        for row, entry in enumerate(chosen):
            bank, clip = self.banks[self.entries[entry][0]], self.entries[entry][1]
            offset, total = bank.clips[clip].offset, bank.clips[clip].length
            start = offset + int(rng.integers(max(1, total - length + 1)))
            part = bank.audio[start : start + min(length, total)].astype(np.float32) / 32768
            crops[row] = np.resize(part, length)
        return chosen, crops


class MarginHead(nn.Module):
    """Additive angular margin softmax over the labelled speakers, from their (N, 192) centres in teacher space."""

    def __init__(self, centres: Tensor, margin: float, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(centres.clone())
        self.margin, self.scale = margin, scale

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        cosine = (embeddings @ functional.normalize(self.weight, dim=1).T).clamp(-1 + 1e-6, 1 - 1e-6)
        own = functional.one_hot(labels, len(self.weight)).bool()
        angle = torch.acos(cosine) + self.margin
        return functional.cross_entropy(self.scale * torch.where(own, torch.cos(angle), cosine), labels)


class Trainer:
    """One run: network, its running average, optimiser, and where it stands."""

    def __init__(self, recipe: Recipe, voices: Voices, augmenter: Augmenter, folder: Path, device: str) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.voices, self.augmenter, self.device = recipe, voices, augmenter, torch.device(device)
        self.checkpoint = folder / "checkpoint.pt"
        shape = Shape(recipe.channels, DIMENSION, normalise_input=recipe.frontend == "log-mel", deviation=True)
        self.network = DeepSpeaker(shape).to(self.device, memory_format=torch.channels_last)
        self.head = MarginHead(torch.from_numpy(voices.centres), recipe.margin, recipe.margin_scale).to(self.device)
        average = torch.optim.swa_utils.get_ema_multi_avg_fn(recipe.averaging)
        self.average = torch.optim.swa_utils.AveragedModel(self.network, multi_avg_fn=average, use_buffers=True)
        parameters = [*self.network.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
        self.step = 0
        self.history: list[dict[str, float]] = []

    def run(self, every: int = 50) -> None:
        """Train up to the recipe's steps, saving every ``every`` steps."""
        sums: dict[str, float] = {}
        begin = time.monotonic()
        with tqdm(total=self.recipe.steps, initial=self.step, desc="identity", mininterval=30) as progress:
            while self.step < self.recipe.steps:
                for name, value in self._step().items():
                    sums[name] = sums.get(name, 0.0) + value
                self.step += 1
                progress.update()
                if self.step % every == 0 or self.step == self.recipe.steps:
                    row = {name: round(value / every, 4) for name, value in sums.items()}
                    self.history.append({"step": self.step, "seconds": round(time.monotonic() - begin), **row})
                    progress.write(json.dumps(self.history[-1]))
                    sums = {}
                    self.save()

    def _step(self) -> dict[str, float]:
        recipe = self.recipe
        rng = np.random.default_rng((recipe.seed, self.step))
        share = self.step / recipe.steps
        for group in self.optimiser.param_groups:
            group["lr"] = (
                recipe.rate * min(1.0, (self.step + 1) / 100) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))
            )
        length = int(rng.uniform(*CROP_SECONDS) * SAMPLE_RATE)
        chosen, crops = self.voices.draw(recipe.batch, length, rng)
        features = self._features(self.augmenter(crops, rng))
        targets = torch.from_numpy(self.voices.targets[chosen]).to(self.device)
        labels = torch.from_numpy(self.voices.labels[chosen]).to(self.device)
        self.network.train()
        with torch.autocast(self.device.type, torch.bfloat16):
            embeddings = self.network(torch.from_numpy(features).to(self.device))
        embeddings = functional.normalize(embeddings.float(), dim=1)
        distance = (1 - (embeddings * targets).sum(dim=1)).mean()
        relations = functional.mse_loss(embeddings @ embeddings.T, targets @ targets.T)
        loss = distance + recipe.relational * relations
        losses = {"distance": distance.item(), "relations": relations.item()}
        known = labels >= 0
        if share >= recipe.margin_from and bool(known.any()):
            margin = self.head(embeddings[known], labels[known])
            loss = loss + recipe.margin_weight * margin
            losses["margin"] = margin.item()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self.optimiser.step()
        self.average.update_parameters(self.network)
        return losses

    def _features(self, crops: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the network takes of (b, n) samples: float32 (b, t, 64, 1)."""
        front_end = FRONT_ENDS[self.recipe.frontend]
        return np.stack([front_end(crop) for crop in crops])[..., None]

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        state = {
            "recipe": asdict(self.recipe),
            "shape": asdict(self.network.shape),
            "frontend": self.recipe.frontend,
            "step": self.step,
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "head": self.head.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "teacher_mean": torch.from_numpy(self.voices.mean),
            "history": self.history,
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def resume(self, path: Path, *, weights_only: bool = False) -> None:
        """Go on from ``path``; ``weights_only`` starts a new schedule (and head) from its averaged weights.

        An exported model (``.onnx``) has nothing but weights.
        """
        if path.suffix == ".onnx":
            _, crops = self.voices.draw(128, 2 * SAMPLE_RATE, np.random.default_rng(self.recipe.seed))
            unfold(self.network, path, torch.from_numpy(self._features(crops)).to(self.device))
            self.average.module.load_state_dict(self.network.state_dict())
            return
        state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        self.average.load_state_dict(state["average"])
        if weights_only:
            self.network.load_state_dict(self.average.module.state_dict())
            return
        self.network.load_state_dict(state["network"])
        if state["head"]["weight"].shape == self.head.weight.shape:
            self.head.load_state_dict(state["head"])
        else:  # other banks, other speakers: the head, which is the last parameter, starts anew
            last = state["optimiser"]["param_groups"][0]["params"][-1]
            state["optimiser"]["state"].pop(last, None)
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.history = state["step"], state["history"]


def load_network(checkpoint: Path) -> tuple[DeepSpeaker, dict[str, Any]]:
    """The averaged network of a checkpoint, ready to embed, and the rest of the checkpoint."""
    state: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)
    network = DeepSpeaker(Shape(**{**state["shape"], "channels": tuple(state["shape"]["channels"])}))
    prefix = "module."
    averaged = {k.removeprefix(prefix): v for k, v in state["average"].items() if k.startswith(prefix)}
    network.load_state_dict(averaged)
    return network.eval(), state


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Recipe()
    parser.add_argument("name", help="run name: checkpoints go to $VOICEID_CACHE/identity/runs/<name>")
    parser.add_argument("--banks", nargs="+", default=["corpus"], help="banks made by tools.train.data.voices")
    parser.add_argument("--channels", type=int, nargs=4, default=defaults.channels)
    parser.add_argument("--frontend", choices=sorted(FRONT_ENDS), default=defaults.frontend)
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--batch", type=int, default=defaults.batch)
    parser.add_argument("--rate", type=float, default=defaults.rate)
    parser.add_argument("--margin-weight", type=float, default=defaults.margin_weight)
    parser.add_argument("--margin-from", type=float, default=defaults.margin_from)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--start-from", type=Path, help="checkpoint or exported .onnx whose weights start a new schedule"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chosen = {
        n: getattr(options, n) for n in ("frontend", "steps", "batch", "rate", "margin_weight", "margin_from", "seed")
    }
    recipe = Recipe(channels=tuple(options.channels), **chosen)
    home = cache_folder("identity")
    folder = home / "runs" / options.name
    folder.mkdir(parents=True, exist_ok=True)
    voices = Voices([open_bank(home / "banks" / name) for name in options.banks])
    print(f"{len(voices.entries)} clips, {voices.hours:.1f} h, {len(voices.speakers)} labelled speakers")
    trainer = Trainer(recipe, voices, Augmenter.from_corpus(), folder, options.device)
    if trainer.checkpoint.exists():
        trainer.resume(trainer.checkpoint)
    elif options.start_from:
        trainer.resume(options.start_from, weights_only=True)
    trainer.run()
    report = {"recipe": asdict(recipe), "banks": options.banks, "hours": voices.hours, "history": trainer.history}
    report["start_from"] = str(options.start_from) if options.start_from else None
    (folder / "report.json").write_text(json.dumps(report, indent=1), "utf-8")


if __name__ == "__main__":
    main()
