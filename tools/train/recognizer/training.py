"""Train the recogniser: ``python -m tools.train.recognizer.training FOLDER --features units``.

Training resumes from the newest checkpoint in the folder. Letters are the target; phones of the CMU dictionary (inside
pocketsphinx) guide the lower layer, since sounds generalise better than spellings from few hours of speech.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.networks.words import WordNetwork, padded
from tools.train.recognizer.data import MEL_BANDS, Example, examples
from tools.train.recognizer.measures import word_errors
from tools.train.recognizer.pronouncing import PHONES, Pronunciations
from voiceid.understanding.alphabet import decode, encode

WARM_UP, DECAY = 100, 0.4
PHONE_WEIGHT = 0.3
RATE = {"units": 37, "mel": 100}
"""Inputs a second, about."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """An example ready for the network; ``phones`` is empty where a word is in no dictionary."""

    heard: NDArray[np.int16] | NDArray[np.float16]
    letters: list[int]
    phones: list[int]


def lessons_of(found: list[Example]) -> list[Lesson]:
    """``found`` with its targets."""
    pronounce = Pronunciations()
    return [Lesson(example.heard, encode(example.text), pronounce(example.text)) for example in found]


class Batches:
    """Batches of like length, about ``frames`` inputs each: short before long in the first epoch, then shuffled."""

    def __init__(self, lessons: list[Lesson], frames: int, seed: int) -> None:
        self._lessons, self._frames, self._seed = lessons, frames, seed

    def epoch(self, epoch: int) -> list[list[Lesson]]:
        rng = np.random.default_rng((self._seed, epoch))
        lengths = np.array([len(lesson.heard) for lesson in self._lessons]) * rng.uniform(0.9, 1.1, len(self._lessons))
        batches: list[list[Lesson]] = [[]]
        for i in np.argsort(lengths):
            lesson = self._lessons[i]
            if batches[-1] and (len(batches[-1]) + 1) * len(lesson.heard) > self._frames:
                batches.append([])
            batches[-1].append(lesson)
        return [batches[i] for i in rng.permutation(len(batches))] if epoch else batches


def disturbed(heard: NDArray[Any], unknown: int, rng: np.random.Generator) -> Tensor:
    """What the network hears in training: units replaced, dropped and hidden, or bands and stretches of mel hidden."""
    if heard.ndim == 1:
        units = heard.astype(np.int64)
        replaced = rng.random(len(units)) < 0.04
        units = np.where(replaced, rng.integers(0, unknown, len(units)), units)
        units = units[rng.random(len(units)) > 0.04]
        for _ in range(1 + len(units) // 100):
            start = int(rng.integers(0, max(1, len(units))))
            units[start : start + int(rng.integers(0, 8))] = unknown
        return torch.from_numpy(units)
    mel = heard.astype(np.float32) + rng.normal(0, 0.05) + 0.1 * rng.standard_normal(heard.shape, np.float32)
    low = int(rng.integers(0, MEL_BANDS - 8))
    mel[:, low : low + int(rng.integers(0, 8))] = 0
    for _ in range(1 + len(mel) // 300):
        start = int(rng.integers(0, len(mel)))
        mel[start : start + int(rng.integers(0, 24))] = 0
    return torch.from_numpy(mel)


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
    training = [e for _, found in examples("train", **common, augmented=True) for e in found]
    chosen = {name: found[:: max(1, len(found) // 40)] for name, found in examples("dev", **common, augmented=False)}
    inputs = arguments.codebook if arguments.features == "units" else MEL_BANDS
    network = WordNetwork(arguments.features, inputs, arguments.width, arguments.recurrent, len(PHONES)).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.rate, weight_decay=1e-3)
    path: Path = arguments.output / "checkpoint.pt"
    arguments.output.mkdir(parents=True, exist_ok=True)
    update, spent, history = 0, 0.0, []
    if path.exists():
        saved = torch.load(path, map_location=device, weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        update, spent, history = int(saved["update"]), float(saved["seconds"]), list(saved["history"])
    batches = Batches(lessons_of(training), round(arguments.seconds * RATE[arguments.features]), arguments.seed)
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
            "utterances": len(training),
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
        }
        temporary = path.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(path)

    progress = tqdm(total=total, initial=update, unit="update", mininterval=5)
    last = saved_at = time.monotonic()
    batch_list: list[list[Lesson]] = []
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
    batch: list[Lesson],
    rng: np.random.Generator,
    unknown: int,
    device: torch.device,
    arguments: argparse.Namespace,
) -> dict[str, float]:
    heard, lengths = padded([disturbed(lesson.heard, unknown, rng) for lesson in batch], float(unknown))
    if heard.ndim == 2:
        heard = heard.long()
    with torch.autocast(device.type, torch.bfloat16, enabled=arguments.bf16):
        letters, phones = network.both(heard.to(device))
    frames = network.frames(lengths)
    loss = guided = ctc(letters, frames, [lesson.letters for lesson in batch])
    known = [i for i, lesson in enumerate(batch) if lesson.phones]
    if phones is not None and known:
        guided = ctc(phones[known], frames[known], [batch[i].phones for i in known])
    optimizer.zero_grad()
    ((1 - PHONE_WEIGHT) * loss + PHONE_WEIGHT * guided).backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return {"letters": float(loss), "phones": float(guided)}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("output", type=Path, help="folder of checkpoints")
    result.add_argument("--features", choices=("units", "mel"), default="units")
    result.add_argument("--codebook", type=int, choices=(50, 100, 200), default=100)
    result.add_argument("--units-card", default="units", help="name or path of the unit model's card")
    result.add_argument("--transcripts", type=Path, help="texts made by tools.train.transcripts")
    result.add_argument("--sets", nargs="+", help="only these sets")
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
