"""Train the recogniser: ``python -m tools.train.recognizer.training FOLDER --features units``.

Training resumes from the newest checkpoint in the folder. Letters are the target; where a forced alignment names phones
(``--phones``), they guide the convolutions: sounds generalise better than spellings from few hours of speech.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.networks.words import FRAMES_A_STEP, WordNetwork, padded
from tools.train.phones import PHONES
from tools.train.recognizer.data import MEL_BANDS, Example, examples
from tools.train.recognizer.guidance import Guide
from tools.train.recognizer.measures import word_errors
from voiceid.understanding.alphabet import decode, encode

WARM_UP, DECAY = 100, 0.4
PHONE_WEIGHT = 0.5
RATE = {"units": 37, "mel": 100}
"""Inputs a second, about."""


class Batches:
    """Batches of like length, about ``frames`` inputs each: short before long in the first epoch, then shuffled."""

    def __init__(self, examples: list[Example], frames: int, seed: int) -> None:
        self._examples, self._frames, self._seed = examples, frames, seed

    def epoch(self, epoch: int) -> list[list[Example]]:
        rng = np.random.default_rng((self._seed, epoch))
        lengths = np.array([len(example.heard) for example in self._examples])
        lengths = lengths * rng.uniform(0.9, 1.1, len(lengths))
        batches: list[list[Example]] = [[]]
        for i in np.argsort(lengths):
            example = self._examples[i]
            if batches[-1] and (len(batches[-1]) + 1) * len(example.heard) > self._frames:
                batches.append([])
            batches[-1].append(example)
        return [batches[i] for i in rng.permutation(len(batches))] if epoch else batches


def disturbed(example: Example, unknown: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """What the network hears in training, and phones: units replaced, dropped and hidden, or parts of mel hidden."""
    heard = example.heard
    phones = np.full(len(heard), -1) if example.phones is None else example.phones[: len(heard)].astype(np.int64)
    phones = np.pad(phones, (0, len(heard) - len(phones)), constant_values=-1)
    if heard.ndim == 1:
        units = heard.astype(np.int64)
        replaced = rng.random(len(units)) < 0.04
        units = np.where(replaced, rng.integers(0, unknown, len(units)), units)
        kept = rng.random(len(units)) > 0.04
        units, phones = units[kept], phones[kept]
        for _ in range(1 + len(units) // 100):
            start = int(rng.integers(0, max(1, len(units))))
            units[start : start + int(rng.integers(0, 8))] = unknown
        return torch.from_numpy(units), torch.from_numpy(phones)
    mel = heard.astype(np.float32) + rng.normal(0, 0.05) + 0.1 * rng.standard_normal(heard.shape, np.float32)
    low = int(rng.integers(0, MEL_BANDS - 8))
    mel[:, low : low + int(rng.integers(0, 8))] = 0
    for _ in range(1 + len(mel) // 300):
        start = int(rng.integers(0, len(mel)))
        mel[start : start + int(rng.integers(0, 24))] = 0
    return torch.from_numpy(mel.astype(np.float32)), torch.from_numpy(phones)


def begin_with_phones(network: WordNetwork, training: list[Example]) -> None:
    """Let every unit's embedding begin with how often it stood for each phone, where a guide names phones."""
    counts = np.ones((int(network.options["inputs"]) + 1, len(PHONES)))
    for example in training:
        if example.phones is not None:
            known = example.phones >= 0
            np.add.at(counts, (example.heard[known], example.phones[known]), 1)
    if counts.sum() == counts.size:
        return
    share = np.log(counts / counts.sum(axis=1, keepdims=True))
    share = (share - share.mean(axis=0)) / share.std(axis=0).clip(1e-3)
    size = min(len(PHONES), network.front.weight.shape[1])
    with torch.no_grad():
        network.front.weight[:, :size] = torch.from_numpy(share[:, :size]).to(network.front.weight)


def start_from(network: WordNetwork, state: dict[str, Tensor]) -> None:
    """Load what fits of another network's weights: of one on other features, all behind the first layers."""
    own = network.state_dict()
    fitting = {name: tensor for name, tensor in state.items() if name in own and own[name].shape == tensor.shape}
    if not any(name.startswith("context") for name in fitting):
        raise SystemExit("--start-from: a network of another --width or --recurrent")
    network.load_state_dict(own | fitting)


def ctc(log_probabilities: Tensor, frames: Tensor, targets: list[list[int]]) -> Tensor:
    """CTC loss a letter; texts too long for their frames count nothing."""
    flat = torch.tensor([label for target in targets for label in target])
    lengths = torch.tensor([len(target) for target in targets])
    total = F.ctc_loss(log_probabilities.transpose(0, 1), flat, frames, lengths, reduction="sum", zero_infinity=True)
    return total / lengths.sum()


def learning_rate(done: float, update: int, peak: float) -> float:
    """Warm-up over updates, then constant, then a linear decay over the last share of the run."""
    return peak * min(1.0, (update + 1) / WARM_UP, max(0.02, (1 - done) / DECAY))


def error_rate(network: WordNetwork, found: list[Example], unknown: int, device: torch.device) -> float:
    """Word error rate of the best label a frame, without grammar or language model."""
    network.eval()
    errors = words = 0
    with torch.no_grad():
        for example in found:
            heard = torch.from_numpy(example.heard.astype(np.int64 if example.heard.ndim == 1 else np.float32))
            best = network(heard[None].to(device))[0].argmax(-1).cpu()
            labels = [int(label) for label in torch.unique_consecutive(best) if label]
            wrong, count = word_errors(example.text, decode(labels))
            errors, words = errors + wrong, words + count
    network.train()
    return errors / max(1, words)


def train(arguments: argparse.Namespace) -> None:
    """Run until ``arguments.epochs`` epochs are done, or ``arguments.minutes`` have passed."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device)
    common = {name: getattr(arguments, name) for name in ("features", "codebook", "units_card", "transcripts", "sets")}
    guide = Guide(arguments.phones, arguments.cache) if arguments.phones else None
    heard = dict(examples("train", **common, augmented=True, guide=guide))
    training = [example for found in heard.values() for example in found]
    chosen = {name: found[:: max(1, len(found) // 40)] for name, found in examples("dev", **common, augmented=False)}
    inputs = arguments.codebook if arguments.features == "units" else MEL_BANDS
    network = WordNetwork(arguments.features, inputs, arguments.width, arguments.recurrent, len(PHONES)).to(device)
    if arguments.start_from is not None:
        start_from(network, torch.load(arguments.start_from, map_location=device, weights_only=True)["network"])
    elif arguments.features == "units":
        begin_with_phones(network, training)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.rate, weight_decay=1e-3)
    path: Path = arguments.output / "checkpoint.pt"
    arguments.output.mkdir(parents=True, exist_ok=True)
    update, spent, history = 0, 0.0, []
    if path.exists():
        saved = torch.load(path, map_location=device, weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        update, spent, history = int(saved["update"]), float(saved["seconds"]), list(saved["history"])
    batches = Batches(training, round(arguments.seconds * RATE[arguments.features]), arguments.seed)
    per_epoch = len(batches.epoch(0))
    total = arguments.epochs * per_epoch
    figures: dict[str, float] = {}

    def save() -> None:
        state = {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "options": network.options,
            "update": update,
            "epochs": update / per_epoch,
            "seconds": spent,
            "history": history,
            "sets": {name: len(found) for name, found in heard.items()},
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
        }
        temporary = path.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(path)

    progress = tqdm(total=total, initial=update, unit="update", mininterval=5)
    last = saved_at = time.monotonic()
    batch_list: list[list[Example]] = []
    while update < total:
        epoch, number = divmod(update, per_epoch)
        if number == 0 or not batch_list:
            batch_list = batches.epoch(epoch)
        rng = np.random.default_rng((arguments.seed, update))
        done = max(update / total, spent / (60 * arguments.minutes) if arguments.minutes else 0.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(done, update, arguments.rate)
        now = _step(network, optimizer, batch_list[min(number, len(batch_list) - 1)], rng, inputs, device, arguments)
        figures = {name: 0.95 * figures.get(name, value) + 0.05 * value for name, value in now.items()}
        progress.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
        progress.update()
        update += 1
        moment = time.monotonic()
        spent, last = spent + moment - last, moment
        over = bool(arguments.minutes) and spent > 60 * arguments.minutes
        if update % per_epoch == 0 or update == total or over:
            rates = {name: error_rate(network, found, inputs, device) for name, found in chosen.items()}
            history.append({"update": update, **figures, "wer": rates})
            (arguments.output / "history.json").write_text(json.dumps(history, indent=1) + "\n", "utf-8")
            progress.write(f"update {update}: {json.dumps(history[-1])}")
            last = time.monotonic()
        if moment - saved_at > 120 or update == total or over:
            save()
            saved_at = moment
        if over:
            break


def _step(
    network: WordNetwork,
    optimizer: torch.optim.Optimizer,
    batch: list[Example],
    rng: np.random.Generator,
    unknown: int,
    device: torch.device,
    arguments: argparse.Namespace,
) -> dict[str, float]:
    pairs = [disturbed(example, unknown, rng) for example in batch]
    heard, lengths = padded([one for one, _ in pairs], unknown)
    with torch.autocast(device.type, torch.bfloat16, enabled=arguments.bf16):
        letters, phones = network.both(heard.to(device))
    frames = network.frames(lengths)
    loss = ctc(letters, frames, [encode(example.text) for example in batch])
    wanted = phones_at_frames(padded([one for _, one in pairs], -1)[0], network.stride, letters.shape[1]).to(device)
    figures, total = {"letters": float(loss.detach())}, loss
    if phones is not None and bool((wanted >= 0).any()):
        guided = F.nll_loss(phones[wanted >= 0], wanted[wanted >= 0])
        figures["phones"], total = float(guided.detach()), loss + PHONE_WEIGHT * guided
    optimizer.zero_grad()
    total.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return figures


def phones_at_frames(phones: Tensor, stride: int, frames: int) -> Tensor:
    """Phones (B, T) of inputs as those of the output frames (B, frames), -1 beyond the end."""
    at = ((torch.arange(frames) + 0.5) * stride / FRAMES_A_STEP).long()
    known = phones[:, at.clamp(max=phones.shape[1] - 1)]
    return torch.where(at < phones.shape[1], known, -1)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("output", type=Path, help="folder of checkpoints")
    result.add_argument("--features", choices=("units", "mel"), default="units")
    result.add_argument("--codebook", type=int, choices=(50, 100, 200), default=100)
    result.add_argument("--units-card", default="units", help="name or path of the unit model's card")
    result.add_argument("--transcripts", type=Path, help="texts made by tools.train.transcripts")
    result.add_argument("--phones", type=Path, help="phone labels by tools.train.phones, to guide the convolutions")
    result.add_argument("--cache", type=Path, help="folder of prepared speech of --phones")
    result.add_argument("--sets", nargs="+", help="only these sets")
    result.add_argument(
        "--start-from", type=Path, help="checkpoint to begin with, such as tools.train.recognizer.carry's"
    )
    result.add_argument("--width", type=int, default=192, help="channels of the convolutions")
    result.add_argument("--recurrent", type=int, default=160, help="width of the GRU, a direction")
    result.add_argument("--epochs", type=int, default=12, help="over every resumption")
    result.add_argument("--minutes", type=float, default=0, help="stop after this time of training (0: no limit)")
    result.add_argument("--seconds", type=float, default=100, help="about as much speech a batch")
    result.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    result.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="bfloat16 autocast")
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--threads", type=int, default=1)
    result.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    return result


if __name__ == "__main__":
    train(parser().parse_args())
