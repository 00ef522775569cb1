"""Train a spoofing detector of the AASIST family on the shards of ``tools.train.data.spoofing``.

``python -m tools.train.spoofing RUN`` trains the light sibling on the CPU; ``--shape AASIST-L --device cuda`` the
official shape. It resumes where RUN stopped, takes in shards that have appeared since, and writes ``last.pt`` (plain
tensors) and ``report.json`` into RUN; a run that began with other weights ends with ``blend.pt``, the mean of both.
Steps may be changed on resuming: the learning rate falls over the last 30 %.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.data.attacks.cache import spoofing_cache
from tools.train.data.spoofing import Window, read_shard, shard_folder
from tools.train.data.synthetic import BY_NAME
from tools.train.metrics import eer
from tools.train.networks.aasist import SAMPLES, SHAPES, Aasist
from voiceid.types import SAMPLE_RATE

AVERAGE_DECAY = 0.995
WARM_UP = 50
CHECK_EVERY = 250
LENGTHS = {name: SAMPLES if name.startswith("AASIST") else SAMPLES // 2 for name in SHAPES}
"""Samples of a training window: half for the light shapes, which pool over time."""
SYSTEM_SHARES = {
    "kokoro": 0.10,
    "neural-speech": 0.12,
    "statistical": 0.07,
    "concatenative": 0.07,
    "neural": 0.04,
    "melgan": 0.07,
    "mb-melgan": 0.07,
    "vocoder-upsampling": 0.07,
    "vocoder-spectral": 0.07,
    "hifigan-universal": 0.12,
    "hifigan-small": 0.08,
}
"""Share of the attacks in a batch, of systems or of kinds of synthesizers; the other systems share the rest by their
counts."""
RAW_SHARE = 0.4
"""Share of recordings that no codec had touched, which are a tenth of the data but not of what a microphone gives."""
NOISE_SHARE = 0.25
"""How often white noise is laid over a window."""
PAIR_SHARE = 1.0
"""Weight of the loss that ranks a genuine window above its own copy."""


@dataclass(frozen=True)
class Options:
    """What a run is made with."""

    shape: str
    steps: int
    batch: int
    rate: float
    seed: int


def share_group(system: str) -> str:
    """The name in `SYSTEM_SHARES` that counts for ``system``: its own, or of synthesizers but Kokoro their kind."""
    if system == "kokoro" or system not in BY_NAME:
        return system
    kind = BY_NAME[system].kind
    return "neural-speech" if kind == "neural" else kind


@dataclass(frozen=True)
class Batch:
    """Genuine windows, then as many attacks: float32 (2n, length). Where ``paired`` (n,), the attack at n + i is a copy
    of the genuine window at i, through the same channel."""

    waveforms: Tensor
    paired: Tensor


class Windows:
    """All windows of a split, with sampling weights that balance attack systems and codecs."""

    def __init__(self, split: str) -> None:
        shards = [read_shard(path) for path in sorted(shard_folder(split).glob("*.npy"))]  # type: ignore[arg-type]
        if not shards:
            raise SystemExit(f"no shards for {split}; run python -m tools.train.data.spoofing --split {split}")
        self._samples = [shard.samples for shard in shards]
        self._ends = np.cumsum([len(shard.rows) for shard in shards])
        self.rows: list[Window] = [row for shard in shards for row in shard.rows]
        self.labels = np.array([row.label for row in self.rows])
        systems = np.array([share_group(row.system) for row in self.rows])
        raw = np.array([row.native_codec == "flac" for row in self.rows])
        weights = np.where(raw, RAW_SHARE / max(1, raw.sum()), (1 - RAW_SHARE) / max(1, (~raw).sum()))
        shares = {name: share for name, share in SYSTEM_SHARES.items() if (systems == name).any()}
        groups = [(systems == name, share) for name, share in shares.items()]
        groups.append(((self.labels == 0) & ~np.isin(systems, list(shares)), 1 - sum(shares.values())))
        for members, share in groups:
            weights[members] *= share / max(weights[members].sum(), 1e-12)
        of_class = [np.where(self.labels == label, weights, 0) for label in (0, 1)]
        self._draws = [weights / weights.sum() for weights in of_class]
        self.originals = originals(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """One window: float32 (64600,)."""
        shard = int(np.searchsorted(self._ends, index, side="right"))
        start = self._ends[shard - 1] if shard else 0
        return self._samples[shard][index - start].astype(np.float32) / 32_767

    def batch(self, size: int, length: int, random: np.random.Generator) -> Batch:
        """Attacks drawn by weight, and with each the window that it copies or, if it copies none, any genuine one.

        Both get the same augmentation, so that between them nothing but the attack differs.
        """
        count = size // 2
        attacks = random.choice(len(self), count, p=self._draws[0])
        paired = self.originals[attacks] >= 0
        genuine = np.where(paired, self.originals[attacks], random.choice(len(self), count, p=self._draws[1]))
        seeds = np.tile(random.integers(2**32, size=count), 2)
        chosen = np.concatenate((genuine, attacks))
        waveforms = [
            augmented(self[i], length, np.random.default_rng(seed)) for i, seed in zip(chosen, seeds, strict=True)
        ]
        return Batch(torch.from_numpy(np.stack(waveforms)), torch.from_numpy(paired))


def originals(rows: list[Window]) -> NDArray[np.int64]:
    """For each row that is a copy the genuine row before it of which it is one (n,), -1 for all others."""
    found = np.full(len(rows), -1)
    last = -1
    for index, row in enumerate(rows):
        if row.label == 1:
            last = index
        elif last >= 0 and (row.set, row.speaker) == (rows[last].set, rows[last].speaker):
            found[index] = last
    return found


def augmented(window: NDArray[np.float32], length: int, random: np.random.Generator) -> NDArray[np.float32]:
    """A stretch of ``length``; some of a second or more repeated, as short utterances are; now and then some noise."""
    stretch = min(length, int(random.uniform(SAMPLE_RATE, 2 * SAMPLES)))
    start = int(random.integers(SAMPLES - stretch + 1))
    window = np.resize(window[start : start + stretch], length)
    if random.random() < NOISE_SHARE:
        window = window + np.float32(10 ** random.uniform(-4, -2.3)) * random.standard_normal(length, np.float32)
    return window


def masked(bands: Tensor, random: np.random.Generator) -> Tensor:
    """SpecAugment (Park et al., 2019) on (2n, bands, frames) or (2n, channels, bands, frames).

    It takes a stripe of bands, a stripe of frames, or all the top, of all channels, and the same of i and n + i.
    """
    count, frames = bands.shape[-2:]
    pairs = len(bands) // 2
    mask = bands.new_ones(pairs, *[1] * (bands.ndim - 3), count, frames)
    for row in mask.view(pairs, count, frames):
        if random.random() < 0.5:
            low = int(random.integers(count))
            row[low : low + int(random.integers(1, count // 5))] = 0
        if random.random() < 0.3:
            row[int(random.uniform(0.4, 1.0) * count) :] = 0
        if random.random() < 0.3:
            first = int(random.integers(frames))
            row[:, first : first + int(random.integers(1, frames // 6))] = 0
    return bands * torch.cat((mask, mask))


def train_step(
    model: Aasist, optimiser: torch.optim.Optimizer, batch: Batch, random: np.random.Generator, half: bool
) -> float:  # fmt: skip
    """One optimiser step; returns the loss: cross entropy, and the softplus of how far copies rise above originals.

    Ranking copies against their originals (after Wang & Yamagishi, ICASSP 2023, arXiv 2210.10570, who contrast their
    embeddings) leaves speaker, text and microphone nothing to say.
    """
    device = next(model.parameters()).device
    with torch.no_grad():
        bands = masked(model.conv_time(batch.waveforms.to(device)), random)
    with torch.autocast(device.type, torch.bfloat16, enabled=half):
        logits = model.classify(bands)
    labels = torch.arange(2, device=device).flip(0).repeat_interleave(len(bands) // 2)
    loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.02)
    genuine, attacks = (logits[:, 1] - logits[:, 0]).float().chunk(2)
    rises = F.softplus(attacks - genuine)[batch.paired.to(device)]
    loss = loss + PAIR_SHARE * rises.sum() / len(genuine)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimiser.step()
    return float(loss.detach())


def faster_in_half(model: Aasist, batch: int) -> bool:
    """Whether bfloat16 autocast makes a step cheaper here, by CPU time of a forward and backward pass of each kind."""
    bands = model.conv_time(torch.randn(batch, SAMPLES) * 0.05)
    cost = {}
    for half in (False, True):
        for _ in range(2):
            start = time.process_time()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model.classify(bands)
            logits.float().square().mean().backward()
            cost[half] = time.process_time() - start
    model.zero_grad()
    tqdm.write(f"CPU ms a sample: float32 {1000 * cost[False] / batch:.1f}, bfloat16 {1000 * cost[True] / batch:.1f}")
    return cost[True] < cost[False]


@torch.no_grad()
def scores(model: Aasist, windows: Windows, limit: int = 400) -> tuple[NDArray[np.float64], list[Window]]:
    """Bona fide minus spoof logit of the first ``limit`` windows."""
    model.eval()
    device = next(model.parameters()).device
    count = min(limit, len(windows))
    values = []
    for first in range(0, count, 16):
        batch = np.stack([windows[i] for i in range(first, min(first + 16, count))])
        logits = model(torch.from_numpy(batch).to(device)).cpu().numpy()
        values.append(logits[:, 1] - logits[:, 0])
    return np.concatenate(values).astype(np.float64), windows.rows[:count]


def error_rates(values: NDArray[np.float64], rows: list[Window]) -> dict[str, float]:
    """EER over all windows and of each attack system."""
    genuine = values[[row.label == 1 for row in rows]]
    names = sorted({row.system for row in rows if row.label == 0})
    attacks = {name: values[[row.system == name for row in rows]] for name in names}
    everything = np.concatenate(list(attacks.values()))
    return {"all": eer(genuine, everything), **{name: eer(genuine, part) for name, part in attacks.items()}}


def dev_error_rates(shape: str, weights: dict[str, Tensor], device: str) -> dict[str, float]:
    """EERs of ``weights`` on the development shards; empty while there are none."""
    if not any(shard_folder("dev").glob("*.npy")):
        return {}
    judge = Aasist(SHAPES[shape]).to(device)
    judge.load_state_dict(weights)
    return error_rates(*scores(judge, Windows("dev")))


def begin_with(model: Aasist, weights: dict[str, Tensor]) -> None:
    """Load ``weights`` of this shape, or of the light shape into the phase shape, which then does not yet see phase."""
    known = model.state_dict()
    for name in ("first_bn.weight", "first_bn.bias", "first_bn.running_mean", "first_bn.running_var"):
        if known[name].shape != weights[name].shape:
            weights |= {name: torch.cat((weights[name], known[name][1:]))}
    stem = known.get("stem.0.weight")
    if stem is not None and stem.shape != weights["stem.0.weight"].shape:
        widened = torch.zeros_like(stem)
        widened[:, :1] = weights["stem.0.weight"]
        weights |= {"stem.0.weight": widened}
    model.load_state_dict(weights)


def learning_rate(step: int, options: Options) -> float:
    """Linear warm-up, level, then linear to a twentieth over the last 30 %."""
    falling = min(1.0, (options.steps - step) / (0.3 * options.steps))
    return options.rate * min(1.0, (step + 1) / WARM_UP) * max(0.05, falling)


def optimiser_of(model: Aasist, rate: float) -> torch.optim.Optimizer:
    """AdamW; the wide linear read-out learns at a twentieth, or its many small steps add up to noise."""
    wide = [weight for name, weight in model.named_parameters() if name.startswith("statistics_layer")]
    rest = [weight for name, weight in model.named_parameters() if not name.startswith("statistics_layer")]
    groups = [{"params": rest, "share": 1.0}, {"params": wide, "share": 0.05}]
    return torch.optim.AdamW([group for group in groups if group["params"]], rate, weight_decay=1e-3)


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that an interruption leaves the old one."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(path)


def train(run: Path, options: Options, device: str, start_from: Path | None = None) -> None:
    """Train until ``options.steps``, saving every 250 steps; a new run may begin with another's averaged weights."""
    torch.manual_seed(options.seed)
    run.mkdir(parents=True, exist_ok=True)
    model = Aasist(SHAPES[options.shape]).to(device).train()
    optimiser = optimiser_of(model, options.rate)
    step, last = 0, run / "last.pt"
    if start_from is not None:
        begin_with(model, torch.load(start_from, map_location=device, weights_only=True)["average"])
    average = {name: value.clone() for name, value in model.state_dict().items()}
    beginning = dict(average)
    if last.exists():
        state = torch.load(last, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        average, step = state["average"], state["step"]
    half = device == "cuda" or faster_in_half(model, 4)
    data, losses = Windows("train"), [0.7]
    progress = tqdm(range(step, options.steps), initial=step, total=options.steps, mininterval=10)
    for step in progress:
        random = np.random.default_rng((options.seed, step))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, options) * group["share"]
        batch = data.batch(options.batch, LENGTHS[options.shape], random)
        losses.append(train_step(model, optimiser, batch, random, half))
        decay = min(AVERAGE_DECAY, (step + 1) / (step + 10))
        for name, value in model.state_dict().items():
            average[name] = decay * average[name] + (1 - decay) * value if value.is_floating_point() else value.clone()
        progress.set_postfix(loss=f"{np.mean(losses[-50:]):.3f}", windows=len(data))
        if (step + 1) % CHECK_EVERY == 0 or step + 1 == options.steps:
            save(last, {
                "shape": options.shape, "step": step + 1, "model": model.state_dict(), "average": average,
                "optimiser": optimiser.state_dict(),
            })  # fmt: skip
            report = {"options": asdict(options), "step": step + 1, "loss": float(np.mean(losses[-50:]))}
            report |= {"windows": len(data), "dev_eer": dev_error_rates(options.shape, average, device)}
            tqdm.write(json.dumps(report))
            (run / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
            data = Windows("train")
    if start_from is not None:
        blend = {"shape": options.shape, "step": options.steps, "average": blended(beginning, average)}
        save(run / "blend.pt", blend)


def blended(first: dict[str, Tensor], second: dict[str, Tensor]) -> dict[str, Tensor]:
    """The mean of the weights from which a training began and those with which it ended: better than either on what
    neither has heard (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022, arXiv 2109.01903)."""
    return {n: (first[n] + v) / 2 if v.is_floating_point() else v for n, v in second.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=spoofing_cache() / "light", help="default: %(default)s")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="light")
    parser.add_argument("--start-from", type=Path, help="checkpoint whose weights a new run begins with")
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    options = Options(arguments.shape, arguments.steps, arguments.batch, arguments.rate, arguments.seed)
    train(arguments.run, options, arguments.device, arguments.start_from)


if __name__ == "__main__":
    main()
