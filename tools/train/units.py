"""Train the speech-unit encoder: CPC on training speech, optionally guided by phones.

The encoder learns by contrastive prediction alone until ``--guidance`` names label files (``tools.train.phones``) or
``--teacher`` a teacher's probabilities (``tools.train.phone_teacher``); then a linear head on the context network also
predicts the phone spoken ``--lookahead`` frames ago: what the teacher heard in the clean voice, half and half with the
label where there is one, while the network hears another voice and channel. Training resumes from the newest checkpoint
in the output folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from tools.train.data.corpus import Item
from tools.train.networks.cpc import CPC, Criterion
from tools.train.networks.mel_encoder import Perturber
from tools.train.phones import PHONES
from tools.train.units_data import READ, load_phones, load_speech, merge_phones, training_items
from tools.train.units_frames import Frames, load_frames

FRAMES = 256
"""Of a window."""
LESSER = 0.1
"""How likely frames without label or reading are drawn, beside the others."""
WARM_UP, DECAY = 50, 0.35
"""Updates of rising learning rate, and the last share of all updates over which it falls to zero."""


class Sampler:
    """Draws batches of windows; ``windows`` neighbours in a row are of one speaker, from whom contrasts are drawn."""

    def __init__(
        self, items: list[Item], frames: Frames, wanted: NDArray[np.float16], groups: int, windows: int, seed: int
    ) -> None:
        self._frames, self._wanted = frames, wanted
        self._groups, self._windows, self._seed = groups, windows, seed
        speakers: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            speakers.setdefault(item.speaker or f"{item.set} {i // 20}", []).append(i)
        self._streams = []
        for members in speakers.values():
            rows = np.concatenate([np.arange(frames.starts[i], frames.starts[i + 1]) for i in members])
            if len(rows) >= FRAMES // 4:
                self._streams.append(np.tile(rows, -(-2 * FRAMES // len(rows))) if len(rows) < 2 * FRAMES else rows)
        read = np.zeros(len(frames.mel), bool)
        for i, item in enumerate(items):
            read[frames.starts[i] : frames.starts[i + 1]] = item.set.startswith(READ)
        worth = [np.where(read[rows] & wanted[rows].any(axis=1), 1, LESSER).sum() for rows in self._streams]
        self._chances = np.array(worth) / np.sum(worth)

    def batch(self, update: int) -> tuple[Tensor, Tensor]:
        """Log-mel spectra (B, FRAMES, bands) and wanted probabilities (B, FRAMES, phones), float32."""
        rng = np.random.default_rng((self._seed, update))
        rows = []
        for stream in rng.choice(len(self._streams), self._groups, p=self._chances):
            places = self._streams[stream]
            rows += [places[s : s + FRAMES] for s in rng.integers(0, len(places) - FRAMES, self._windows)]
        chosen = np.stack(rows)
        mel, wanted = self._frames.mel[chosen], self._wanted[chosen]
        return torch.from_numpy(mel.astype(np.float32)), torch.from_numpy(wanted.astype(np.float32))


def learning_rate(update: int, updates: int, peak: float) -> float:
    """Warm-up, constant, then linear decay."""
    return peak * min(1.0, (update + 1) / WARM_UP, max(0.0, (updates - update) / max(1.0, DECAY * updates)))


def train(arguments: argparse.Namespace) -> None:
    """Run until ``arguments.updates`` updates are done, saving every ``arguments.save_every``."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device)
    items = training_items()
    speech = load_speech(items, arguments.cache or arguments.output)
    phones = merge_phones([[None] * len(items), *(load_phones(file, speech) for file in arguments.guidance)])
    frames = load_frames(speech, arguments.cache or arguments.output)
    del speech
    wanted = frames.wanted(phones, np.load(arguments.teacher, mmap_mode="r") if arguments.teacher else None)
    sampler = Sampler(items, frames, wanted, arguments.groups, arguments.windows, arguments.seed)
    perturber = Perturber()

    model = CPC(arguments.width, arguments.context, front="mel").to(device)
    criterion = Criterion(arguments.width, model.gAR.dimensions, feedforward=2 * arguments.width).to(device)
    head = nn.Linear(model.gAR.dimensions, len(PHONES)).to(device)
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
        torch.manual_seed(arguments.seed * 1_000_003 + update)
        rng = np.random.default_rng((arguments.seed, update, 1))
        spectra, wanted_now = sampler.batch(update)
        spectra, target = perturber(spectra, rng).to(device), wanted_now[:, : FRAMES - arguments.lookahead].to(device)
        chosen = torch.randperm(criterion.steps)[: arguments.steps_per_update].tolist()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update, arguments.updates, arguments.rate)
        rows = arguments.windows * (arguments.contrast_groups or arguments.groups)
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.bf16):
            encoded = model.gEncoder.encode(spectra)
            context, _ = model.gAR(encoded)
            losses, hits = criterion(context[:rows], encoded[:rows], arguments.windows, chosen)
            logits = head(context[:, arguments.lookahead :])
        guided = -(target * logits.float().log_softmax(-1)).sum() / target.sum().clamp(min=1)
        loss = arguments.contrast * losses.mean() + guided
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        optimizer.step()
        now = {"contrast": float(losses.mean()), "hits": float(hits.mean()), "phone": float(guided)}
        known = target.sum(-1) > 0
        if known.any():
            now["phone_hits"] = float((logits.argmax(-1) == target.argmax(-1))[known].float().mean())
        figures = {name: 0.98 * figures.get(name, value) + 0.02 * value for name, value in now.items()}
        progress.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
        if (update + 1) % arguments.save_every == 0 or update + 1 == arguments.updates:
            guided_by_any = bool(arguments.guidance or arguments.teacher)
            state: dict[str, Any] = {
                "gEncoder": model.state_dict(),
                "cpcCriterion": criterion.state_dict(),
                "phoneHead": head.state_dict(),
                "optimizer": optimizer.state_dict(),
                "update": update + 1,
                "lookahead": arguments.lookahead if guided_by_any else 0,
                "guided": guided_by_any,
                "taught": bool(arguments.teacher),
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
    result.add_argument("--width", type=int, default=128, help="channels of the encoder")
    result.add_argument("--context", type=int, default=256, help="channels of the context network")
    result.add_argument("--updates", type=int, default=4000, help="updates in all, over every resumption")
    result.add_argument("--groups", type=int, default=4, help="speakers a batch")
    result.add_argument("--windows", type=int, default=2, help="windows a speaker")
    result.add_argument("--steps-per-update", type=int, default=1, help="of the 12 prediction steps, drawn anew")
    result.add_argument("--contrast", type=float, default=1.0, help="weight of the contrastive loss")
    result.add_argument("--contrast-groups", type=int, help="speakers of a batch with a contrastive loss (all)")
    result.add_argument("--guidance", type=Path, nargs="*", default=[], help="phone label files")
    result.add_argument("--teacher", type=Path, help="probabilities of phones")
    result.add_argument("--lookahead", type=int, default=10, help="frames heard before a guided phone is judged")
    result.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    result.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="bfloat16 autocast")
    result.add_argument("--save-every", type=int, default=50)
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--threads", type=int, default=1)
    result.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    return result


if __name__ == "__main__":
    train(parser().parse_args())
