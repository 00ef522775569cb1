"""Train the identity model: a narrow ResCNN that learns CAM++'s speaker space, then to tell labelled speakers apart.

Every batch holds crops of one random length, 1 to 2.9 s, mostly augmented, and asks for what the teacher made of the
clean crop. Three losses: the cosine distance to the teacher's centred embedding, the difference of the similarities
within the batch, and that of the frames which the teacher pools, through a linear layer that is thrown away.

``--triplets`` fine-tunes besides: every batch also holds stretches of a few speakers of whom banks have several
recordings, and for each the least similar stretch of its speaker has to come before the most similar one of another
(Li et al., arXiv 1705.02304; hard mining within the batch as in Hermans et al., arXiv 1703.07737). The teacher is still
followed, lest so few speakers undo it.
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

from tools.train.data.lessons import BLOCK, BLOCKS, SAMPLES, SHARD, Pool, Voice
from tools.train.data.voice_augmentation import Augmenter
from tools.train.data.voices import Bank, open_bank
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from tools.train.teachers.campplus import DIMENSION, cache_folder
from tools.train.unfold import unfold
from tools.train.widen import widened
from voiceid.features.mel import deep_speaker_fbank, log_mel
from voiceid.types import SAMPLE_RATE

Crops = NDArray[np.float32]
CROP_BLOCKS = (6, BLOCKS)
"""Shortest and longest crop: 0.96 to 2.88 s."""
TRIPLET_SPEAKERS, TRIPLET_STRETCHES = 5, 3
"""Speakers of a batch with triplets, and stretches of each."""
HEARD = 512
"""Channels that the teacher pools."""
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
    frames: float = 0.5
    triplets: float = 0.0
    """Weight of the triplet loss."""
    margin: float = 0.2
    """By how much a crop's cosine to its own speaker is to surpass that to another."""
    averaging: float = 0.99
    seed: int = 1


class Lessons:
    """All shards of a folder of lessons (:mod:`tools.train.data.lessons`), opened without reading them."""

    def __init__(self, folder: Path) -> None:
        shards = sorted(path.name[:3] for path in folder.glob("*.label.npy"))
        if not shards:
            raise SystemExit(f"{folder}: no lessons; make them with tools.train.data.lessons")
        self.audio, self.frames, teacher = (
            [np.load(folder / f"{shard}.{part}.npy", mmap_mode=mode) for shard in shards]
            for part, mode in (("audio", "r"), ("frames", "r"), ("teacher", None))
        )
        self.unit = _unit(np.concatenate(teacher))
        self.mean = self.unit.mean(axis=0)
        """Mean of the teacher's unit embeddings: subtracted from targets."""
        self.targets = _unit(self.unit - self.mean)
        sample = np.concatenate([frames[:64].astype(np.float32) for frames in self.frames[:8]]).reshape(-1, HEARD)
        deviation = sample.std(axis=0)
        self.frame_mean, self.frame_deviation = sample.mean(axis=0), np.maximum(deviation, deviation.mean() / 5)
        self.hours = len(self.targets) * SAMPLES / SAMPLE_RATE / 3600

    def draw(self, count: int, blocks: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Crops, Crops]:
        """``count`` lessons, of each ``blocks`` blocks: samples (n, s) and standardised frames (n, blocks, 512)."""
        chosen = rng.integers(len(self.targets), size=count)
        return chosen, *self.crops(chosen, blocks, rng)

    def crops(self, chosen: NDArray[np.int64], blocks: int, rng: np.random.Generator) -> tuple[Crops, Crops]:
        """Of each of the ``chosen`` lessons ``blocks`` blocks anywhere: samples (n, s) and frames (n, blocks, 512)."""
        crops = np.empty((len(chosen), blocks * BLOCK), np.float32)
        frames = np.empty((len(chosen), blocks, HEARD), np.float32)
        for row, (shard, place) in enumerate(zip(*divmod(chosen, SHARD), strict=True)):
            start = int(rng.integers(BLOCKS - blocks + 1))
            crops[row] = self.audio[shard][place, start * BLOCK : (start + blocks) * BLOCK]
            frames[row] = self.frames[shard][place, start : start + blocks]
        return crops / 32768, (frames - self.frame_mean) / self.frame_deviation


class Voices:
    """The speakers of whom ``banks`` have more than one recording."""

    def __init__(self, banks: list[Bank]) -> None:
        self.pool = Pool.of(banks)
        self.names = [name for name, clips in self.pool.speakers.items() if len(clips) > 1]
        if len(self.names) < TRIPLET_SPEAKERS:
            raise SystemExit(f"the banks have {len(self.names)} speakers heard twice; triplets take {TRIPLET_SPEAKERS}")

    def draw(self, length: int, rng: np.random.Generator) -> Crops:
        """:data:`TRIPLET_STRETCHES` stretches of each of :data:`TRIPLET_SPEAKERS` speakers, one after the other."""
        chosen = [self.names[i] for i in rng.choice(len(self.names), TRIPLET_SPEAKERS, replace=False)]
        voices = [Voice(self.pool.speakers[name], name, 1.0) for name in chosen]
        return np.stack([self.pool.stretch(voice, length, rng) for voice in voices for _ in range(TRIPLET_STRETCHES)])


def hard_triplets(embeddings: Tensor, labels: Tensor, margin: float) -> Tensor:
    """Mean loss of the hardest triplet of every one of the unit ``embeddings`` (N, d) of several speakers (N,)."""
    cosine = embeddings @ embeddings.T
    same = labels[:, None] == labels[None, :]
    farthest = cosine.masked_fill(~same, 1.0).amin(dim=1)
    nearest = cosine.masked_fill(same, -1.0).amax(dim=1)
    return functional.relu(margin + nearest - farthest).mean()


class Trainer:
    """One run: network, its running average, optimiser, and where it stands."""

    def __init__(
        self, recipe: Recipe, lessons: Lessons, augmenter: Augmenter, folder: Path, device: str, voices: Voices | None
    ) -> None:
        torch.manual_seed(recipe.seed)
        self.voices = voices
        self.recipe, self.lessons, self.augmenter, self.device = recipe, lessons, augmenter, torch.device(device)
        self.checkpoint = folder / "checkpoint.pt"
        shape = Shape(recipe.channels, DIMENSION, normalise_input=recipe.frontend == "log-mel", deviation=True)
        self.network = DeepSpeaker(shape).to(self.device, memory_format=torch.channels_last)
        self.hint = nn.Linear(self.network.affine.in_features // 2, HEARD).to(self.device)
        """From the frames that the student pools to those that the teacher pools; not part of the model."""
        average = torch.optim.swa_utils.get_ema_multi_avg_fn(recipe.averaging)
        self.average = torch.optim.swa_utils.AveragedModel(self.network, multi_avg_fn=average, use_buffers=True)
        parameters = [*self.network.parameters(), *self.hint.parameters()]
        self.optimiser = torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
        self.step = 0
        self.history: list[dict[str, float]] = []

    def run(self, unseen: Lessons | None, every: int = 50, check_every: int = 500) -> None:
        """Train up to the recipe's steps, saving every ``every``; ``unseen`` lessons are measured now and then."""
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
                    if unseen is not None and (self.step % check_every == 0 or self.step == self.recipe.steps):
                        row["unseen_similarity"] = round(self.unseen_similarity(unseen), 4)
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
        blocks = int(rng.integers(CROP_BLOCKS[0], CROP_BLOCKS[1] + 1))
        chosen, crops, heard = self.lessons.draw(recipe.batch, blocks, rng)
        if self.voices is not None:
            crops = np.concatenate((crops, self.voices.draw(crops.shape[1], rng)))
        features = self._features(self.augmenter(crops, rng))
        targets = torch.from_numpy(self.lessons.targets[chosen]).to(self.device)
        self.network.train()
        with torch.autocast(self.device.type, torch.bfloat16):
            frames = self.network.frames(torch.from_numpy(features).to(self.device))
            hints = self.hint(frames[: recipe.batch, :blocks])
        everything = self.network.pool(frames.float().mean(dim=1), frames.float().var(dim=1, unbiased=False))
        embeddings = everything[: recipe.batch]
        distance = (1 - (embeddings * targets).sum(dim=1)).mean()
        relations = functional.mse_loss(embeddings @ embeddings.T, targets @ targets.T)
        missed = functional.mse_loss(hints.float(), torch.from_numpy(heard).to(self.device))
        loss = distance + recipe.relational * relations + recipe.frames * missed
        losses = {"distance": distance.item(), "relations": relations.item(), "frames": missed.item()}
        if self.voices is not None:
            labels = torch.arange(TRIPLET_SPEAKERS, device=self.device).repeat_interleave(TRIPLET_STRETCHES)
            triplets = hard_triplets(everything[recipe.batch :], labels, recipe.margin)
            loss = loss + recipe.triplets * triplets
            losses["triplets"] = triplets.item()
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

    def unseen_similarity(self, unseen: Lessons, count: int = 600) -> float:
        """Mean cosine of the averaged network's embeddings of whole ``unseen`` lessons with the teacher's."""
        chosen = np.arange(min(count, len(unseen.unit)))
        crops, _ = unseen.crops(chosen, BLOCKS, np.random.default_rng(0))
        network = self.average.module.eval()
        with torch.inference_mode():
            embeddings = [
                network(torch.from_numpy(self._features(part)).to(self.device)) for part in np.array_split(crops, 12)
            ]
        teacher = torch.from_numpy(unseen.unit[chosen] - self.lessons.mean).to(self.device)
        return float(functional.cosine_similarity(torch.cat(embeddings), teacher).mean())

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        state = {
            "recipe": asdict(self.recipe),
            "shape": asdict(self.network.shape),
            "frontend": self.recipe.frontend,
            "step": self.step,
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "hint": self.hint.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "teacher_mean": torch.from_numpy(self.lessons.mean),
            "history": self.history,
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def resume(self, path: Path, *, weights_only: bool = False) -> None:
        """Go on from ``path``; ``weights_only`` starts a new schedule from its averaged weights.

        Then the run may be wider than the one it starts from. An exported model (``.onnx``) has nothing but weights.
        """
        if path.suffix == ".onnx":
            _, crops, _ = self.lessons.draw(128, 12, np.random.default_rng(self.recipe.seed))
            unfold(self.network, path, torch.from_numpy(self._features(crops)).to(self.device))
            self.average.module.load_state_dict(self.network.state_dict())
            return
        state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        if weights_only:
            state.pop("within", None)
            wide = widened(averaged_network(state), self.recipe.channels)
            self.network.load_state_dict(wide.state_dict())
            self.average.module.load_state_dict(wide.state_dict())
            return
        self.average.load_state_dict(state["average"])
        self.network.load_state_dict(state["network"])
        self.hint.load_state_dict(state["hint"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.history = state["step"], state["history"]


def load_network(checkpoint: Path) -> tuple[DeepSpeaker, dict[str, Any]]:
    """The averaged network of a checkpoint, ready to embed, and the rest of the checkpoint."""
    state: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)
    return averaged_network(state), state


def averaged_network(state: dict[str, Any]) -> DeepSpeaker:
    """The averaged network of a checkpoint's ``state``, ready to embed.

    The map of :mod:`tools.train.within_speakers`, where there is one, is part of its last layer.
    """
    network = DeepSpeaker(Shape(**{**state["shape"], "channels": tuple(state["shape"]["channels"])}))
    prefix = "module."
    averaged = {k.removeprefix(prefix): v for k, v in state["average"].items() if k.startswith(prefix)}
    if "within" in state:
        for name in ("affine.weight", "affine.bias"):
            averaged[name] = state["within"] @ averaged[name].float()
    network.load_state_dict(averaged)
    return network.eval()


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Recipe()
    parser.add_argument("name", help="run name: checkpoints go to $VOICEID_CACHE/identity/runs/<name>")
    parser.add_argument("--lessons", default="train", help="lessons made by tools.train.data.lessons")
    parser.add_argument("--unseen", help="lessons of other speakers, to tell progress by")
    parser.add_argument("--channels", type=int, nargs=4, default=defaults.channels)
    parser.add_argument("--frontend", choices=sorted(FRONT_ENDS), default=defaults.frontend)
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--batch", type=int, default=defaults.batch)
    parser.add_argument("--rate", type=float, default=defaults.rate)
    parser.add_argument(
        "--triplets", type=float, default=defaults.triplets, help="weight of the triplet loss (0: none)"
    )
    parser.add_argument("--banks", nargs="+", default=["corpus"], help="banks whose speakers make triplets")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--start-from", type=Path, help="checkpoint or exported .onnx whose weights start a new schedule"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chosen = {n: getattr(options, n) for n in ("frontend", "steps", "batch", "rate", "triplets", "seed")}
    recipe = Recipe(channels=tuple(options.channels), **chosen)
    home = cache_folder("identity")
    folder = home / "runs" / options.name
    folder.mkdir(parents=True, exist_ok=True)
    lessons = Lessons(home / "lessons" / options.lessons)
    voices = Voices([open_bank(home / "banks" / name) for name in options.banks]) if recipe.triplets else None
    heard = f"; {len(voices.names)} speakers heard more than once" if voices else ""
    print(f"{len(lessons.targets)} lessons, {lessons.hours:.1f} h{heard}")
    trainer = Trainer(recipe, lessons, Augmenter.from_corpus(), folder, options.device, voices)
    if trainer.checkpoint.exists():
        trainer.resume(trainer.checkpoint)
    elif options.start_from:
        trainer.resume(options.start_from, weights_only=True)
    trainer.run(Lessons(home / "lessons" / options.unseen) if options.unseen else None)
    report = {"recipe": asdict(recipe), "lessons": options.lessons, "hours": lessons.hours, "history": trainer.history}
    report["start_from"] = str(options.start_from) if options.start_from else None
    (folder / "report.json").write_text(json.dumps(report, indent=1), "utf-8")


if __name__ == "__main__":
    main()
