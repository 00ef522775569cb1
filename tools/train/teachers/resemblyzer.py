"""Resemblyzer's speaker encoder (Wan et al., "Generalized end-to-end loss", 2018; Apache-2.0), to compare with.

Only the weights are taken from the wheel; nothing of the package is run.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray

from tools.train.data.attacks.wheels import file_of_wheel
from voiceid.types import SAMPLE_RATE, Samples

WHEEL = "Resemblyzer==0.1.4"
CHECKPOINT = "resemblyzer/pretrained.pt"
CHECKPOINT_SHA256 = "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"
BANDS, WIDTH, LAYERS = 40, 256, 3
HOP = SAMPLE_RATE // 100
FRAMES, STEP = 160, 77
"""Frames of a partial utterance (1.6 s) and between two of them (1.3 partial utterances a second)."""
LEAST_COVERED = 0.75
"""Share of the last partial utterance that speech must fill."""


class Resemblyzer(torch.nn.Module):
    """Embeds utterances: 256-dimensional vectors of unit norm, the mean over partial utterances."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(BANDS, WIDTH, LAYERS, batch_first=True)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        path = file_of_wheel(WHEEL, CHECKPOINT, "resemblyzer")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != CHECKPOINT_SHA256:
            raise SystemExit(f"{path}: sha256 {digest} is not the expected {CHECKPOINT_SHA256}")
        weights = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        self.load_state_dict({name: weights[name] for name in self.state_dict()})
        self.eval()

    @torch.inference_mode()
    def embed(self, samples: Samples) -> NDArray[np.float32]:
        """float32 (n,) of speech at 16 kHz to float32 (256,)."""
        import librosa

        starts = partial_starts(len(samples))
        padded = np.pad(samples, (0, max(0, (starts[-1] + FRAMES) * HOP - len(samples))))
        mel = librosa.feature.melspectrogram(y=padded, sr=SAMPLE_RATE, n_fft=400, hop_length=HOP, n_mels=BANDS).T
        partials = np.stack([mel[start : start + FRAMES] for start in starts]).astype(np.float32)
        _, (hidden, _) = self.lstm(torch.from_numpy(partials))
        embeddings = torch.nn.functional.normalize(torch.relu(self.linear(hidden[-1])))
        mean = torch.nn.functional.normalize(embeddings.mean(dim=0), dim=0)
        return np.asarray(mean.numpy(), np.float32)


def partial_starts(samples: int) -> list[int]:
    """First frame of every partial utterance of ``samples``; the last is left out where speech fills too little."""
    frames = -(-(samples + 1) // HOP)
    starts = list(range(0, max(1, frames - FRAMES + STEP + 1), STEP))
    if len(starts) > 1 and samples / HOP - starts[-1] < LEAST_COVERED * FRAMES:
        starts.pop()
    return starts
