"""Log-mel spectra of all speech for unit discovery, prepared once, and what is known of each frame."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.networks.mel_encoder import BANDS, HOP, LEFT, RECEPTIVE, MelEncoder
from tools.train.phones import PHONES
from tools.train.units_data import Speech
from voiceid.types import Samples

Labels = Sequence[NDArray[np.int16] | None]


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of utterances laid end to end: ``mel`` float16 (n, bands), utterance i from ``starts[i]``.

    ``places`` (n,) is where each lies in the utterances' samples laid end to end, in frames of 10 ms.
    """

    mel: NDArray[np.float16]
    starts: NDArray[np.int64]
    places: NDArray[np.int64]

    def wanted(self, phones: Labels, teacher: NDArray[np.float16] | None) -> NDArray[np.float16]:
        """Probabilities (n, phones): label and teacher (by place) half and half; zeros where neither is known."""
        certain = np.zeros((len(self.mel), len(PHONES)), np.float16)
        for start, end, known in zip(self.starts[:-1], self.starts[1:], phones, strict=True):
            if known is not None:
                rows = np.arange(start, min(end, start + len(known)))
                certain[rows, known[: len(rows)]] = 1
        if teacher is None:
            return certain
        likely = teacher[np.minimum(self.places, len(teacher) - 1)]
        sure = certain.any(axis=1, keepdims=True)
        return np.where(sure, (certain + likely) / 2, likely).astype(np.float16)


def log_mel(encoder: MelEncoder, samples: Samples) -> NDArray[np.float32]:
    """Log-mel energies of one utterance as the tokenizer hears it: float32 (n,) to (n // 160, bands)."""
    frames = len(samples) // HOP
    if not frames:
        return np.zeros((0, BANDS), np.float32)
    padded = np.zeros(RECEPTIVE + (frames - 1) * HOP, np.float32)
    end = min(len(samples), len(padded) - LEFT)
    padded[LEFT : LEFT + end] = samples[:end]
    with torch.no_grad():
        found: NDArray[np.float32] = encoder.log_mel(torch.from_numpy(padded)[None])[0].numpy()
    return found


def load_frames(speech: Speech, cache: Path) -> Frames:
    """Frames of ``speech``; read from ``cache`` where they were made before."""
    key = hashlib.sha256("\n".join(speech.names).encode()).hexdigest()[:12]
    file = cache / f"mel-{key}.npy"
    if not file.exists():
        encoder = MelEncoder(1)
        parts = [
            log_mel(encoder, speech.utterance(i)).astype(np.float16)
            for i in tqdm(range(len(speech)), desc="log-mel", unit="utterance")
        ]
        temporary = file.with_suffix(".tmp.npy")
        np.save(temporary, np.concatenate(parts))
        temporary.rename(file)
    counts = np.diff(speech.starts) // HOP
    starts = np.concatenate(([0], np.cumsum(counts)))
    firsts = np.repeat(speech.starts[:-1], counts)
    places = (firsts + (np.arange(starts[-1]) - np.repeat(starts[:-1], counts)) * HOP + HOP // 2) // HOP
    return Frames(np.load(file), starts, places)
