"""Train the speech-unit encoder: CPC on training speech, optionally guided by phone labels.

The encoder learns by contrastive prediction alone until ``--guidance`` names label files (``tools.train.phones``);
then a linear head on the context network also predicts the phone spoken ``--lookahead`` frames ago, wherever a label
exists. Training resumes from the newest checkpoint in the output folder.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.data.corpus import Item
from tools.train.networks.cpc import CPC, HOP, Criterion
from tools.train.phones import PHONES
from tools.train.units_data import Speech, load_phones, load_speech, training_items

WINDOW = 20480
FRAMES = WINDOW // HOP
WARM_UP, DECAY = 100, 0.25
"""Updates of rising learning rate, and the last share of all updates over which it falls to zero."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Speech of one speaker (or one unlabelled utterance) at least a window long, and its phone a frame (-1: none)."""

    samples: NDArray[np.int16]
    phones: NDArray[np.int16]


def streams_of(items: list[Item], speech: Speech, phones: list[NDArray[np.int16] | None]) -> list[Stream]:
    """Group utterances by speaker; whole frames of each are laid end to end, short streams are repeated."""
    groups: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(item.speaker or f"utterance {i}", []).append(i)
    streams = []
    for members in groups.values():
        samples, labels = [], []
        for i in members:
            frames = int(speech.starts[i + 1] - speech.starts[i]) // HOP
            samples.append(speech.samples[speech.starts[i] : speech.starts[i] + frames * HOP])
            known = phones[i]
            labels.append(np.full(frames, -1, np.int16) if known is None else known[:frames])
        joined, joined_labels = np.concatenate(samples), np.concatenate(labels)
        if len(joined) >= WINDOW // 4:
            repeats = -(-int(WINDOW * 1.3) // len(joined))
            streams.append(Stream(np.tile(joined, repeats), np.tile(joined_labels, repeats)))
    return streams


class Sampler:
    """Draws batches: ``groups`` streams by their length, ``windows`` windows of each, speed and noise varied.

    Where phones are known, streams are drawn mostly by how much of them is labelled.
    """

    def __init__(self, streams: list[Stream], groups: int, windows: int, seed: int) -> None:
        self._streams, self._groups, self._windows, self._seed = streams, groups, windows, seed
        known = [int((s.phones >= 0).sum()) for s in streams]
        lengths = np.array([len(s.phones) for s in streams], np.float64)
        weights = lengths * 0.15 + np.array(known) if any(known) else lengths
        self._weights = weights / weights.sum()

    def batch(self, update: int) -> tuple[Tensor, Tensor]:
        """Samples (groups * windows, WINDOW) float32 and phones (groups * windows, FRAMES) int64 for one update."""
        rng = np.random.default_rng((self._seed, update))
        samples, phones = [], []
        for stream in rng.choice(len(self._streams), self._groups, p=self._weights):
            speed = rng.uniform(0.85, 1.15)
            for _ in range(self._windows):
                window, labels = _window(self._streams[stream], speed, rng)
                samples.append(window)
                phones.append(labels)
        return torch.from_numpy(np.stack(samples)), torch.from_numpy(np.stack(phones))


def _window(stream: Stream, speed: float, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    frames = int(FRAMES * speed) + 1
    start = int(rng.integers(0, len(stream.phones) - frames))
    raw = stream.samples[start * HOP : (start + frames) * HOP].astype(np.float32) / 32768
    positions = np.arange(WINDOW) * (speed * (1 - 1e-6))
    below = positions.astype(np.int64)
    share = (positions - below).astype(np.float32)
    window = raw[below] * (1 - share) + raw[np.minimum(below + 1, len(raw) - 1)] * share
    level = 0.05 * 10 ** (-rng.uniform(15, 60) / 20)
    window = window * 10 ** (rng.uniform(-4, 4) / 20) + level * rng.standard_normal(WINDOW, np.float32)
    labels = stream.phones[start + (np.arange(FRAMES) * speed).astype(np.int64)].astype(np.int64)
    return window.astype(np.float32), labels


def learning_rate(update: int, updates: int, peak: float) -> float:
    """Warm-up, constant, then linear decay over the last quarter."""
    return peak * min(1.0, (update + 1) / WARM_UP, max(0.0, (updates - update) / max(1.0, DECAY * updates)))


def train(arguments: argparse.Namespace) -> None:
    """Run until ``arguments.updates`` updates are done, saving every ``arguments.save_every``."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device)
    items = training_items()
    speech = load_speech(items, arguments.cache or arguments.output)
    phones: list[NDArray[np.int16] | None] = [None] * len(items)
    for file in arguments.guidance:
        phones = [new if new is not None else old for old, new in zip(phones, load_phones(file, speech), strict=True)]
    sampler = Sampler(streams_of(items, speech, phones), arguments.groups, arguments.windows, arguments.seed)

    model = CPC(arguments.width, arguments.context, arguments.layers).to(device)
    criterion = Criterion(arguments.width, arguments.context, feedforward=2 * arguments.width).to(device)
    head = nn.Linear(arguments.context, len(PHONES)).to(device)
    parts = nn.ModuleList((model, criterion, head))
    optimizer = torch.optim.Adam(parts.parameters(), lr=arguments.rate)
    path = arguments.output / "checkpoint.pt"
    arguments.output.mkdir(parents=True, exist_ok=True)
    first = 0
    if path.exists():
        saved = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(saved["gEncoder"])
        criterion.load_state_dict(saved["cpcCriterion"])
        head.load_state_dict(saved["phoneHead"])
        optimizer.load_state_dict(saved["optimizer"])
        first = int(saved["update"])
    figures: dict[str, float] = {}
    progress = tqdm(range(first, arguments.updates), initial=first, total=arguments.updates, unit="update")
    for update in progress:
        samples, labels = (part.to(device) for part in sampler.batch(update))
        torch.manual_seed(arguments.seed * 1_000_003 + update)
        chosen = torch.randperm(criterion.steps)[: arguments.steps_per_update].tolist()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update, arguments.updates, arguments.rate)
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.bf16):
            context, encoded, _ = model(samples)
            losses, hits = criterion(context, encoded, arguments.windows, chosen)
            logits = head(context[:, arguments.lookahead :])
        target = labels[:, : labels.shape[1] - arguments.lookahead]
        known = target >= 0
        guided = F.cross_entropy(logits[known].float(), target[known]) if known.any() else logits.sum() * 0
        loss = arguments.contrast * losses.mean() + guided
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        optimizer.step()
        now = {"contrast": float(losses.mean()), "hits": float(hits.mean()), "phone": float(guided)}
        if known.any():
            now["phone_hits"] = float((logits[known].argmax(-1) == target[known]).float().mean())
        figures = {name: 0.98 * figures.get(name, value) + 0.02 * value for name, value in now.items()}
        progress.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
        if (update + 1) % arguments.save_every == 0 or update + 1 == arguments.updates:
            state: dict[str, Any] = {
                "gEncoder": model.state_dict(),
                "cpcCriterion": criterion.state_dict(),
                "phoneHead": head.state_dict(),
                "optimizer": optimizer.state_dict(),
                "update": update + 1,
                "lookahead": arguments.lookahead if arguments.guidance else 0,
                "guided": bool(arguments.guidance),
                "figures": figures,
            }
            temporary = path.with_suffix(".tmp")
            torch.save(state, temporary)
            temporary.replace(path)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__)
    result.add_argument("output", type=Path, help="folder of checkpoints")
    result.add_argument("--cache", type=Path, help="folder of prepared speech; by default the output folder")
    result.add_argument("--width", type=int, default=128, help="channels (the original: 256)")
    result.add_argument("--context", type=int, default=256, help="LSTM width")
    result.add_argument("--layers", type=int, default=1, help="LSTM layers")
    result.add_argument("--updates", type=int, default=4000, help="updates in all, over every resumption")
    result.add_argument("--groups", type=int, default=4, help="speakers a batch")
    result.add_argument("--windows", type=int, default=2, help="windows a speaker")
    result.add_argument("--steps-per-update", type=int, default=1, help="of the 12 prediction steps, drawn anew")
    result.add_argument("--contrast", type=float, default=1.0, help="weight of the contrastive loss")
    result.add_argument("--guidance", type=Path, nargs="*", default=[], help="phone label files")
    result.add_argument("--lookahead", type=int, default=8, help="frames heard before a guided phone is judged")
    result.add_argument("--rate", type=float, default=1.5e-3, help="peak learning rate")
    result.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="bfloat16 autocast")
    result.add_argument("--save-every", type=int, default=50)
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--threads", type=int, default=1)
    result.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    return result


if __name__ == "__main__":
    train(parser().parse_args())
