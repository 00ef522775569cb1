"""The recogniser: convolutions and a bidirectional GRU under CTC (Graves et al., ICML 2006).

The same network hears merged units (one id a run, about 37 a second) or 40 log-mel bands (100 a second): only the
first layers differ. Everything behind them runs at about 12 steps a second, and each step writes three frames of
letters, so that fast speech fits.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from voiceid.understanding.alphabet import LABELS

Features = Literal["units", "mel"]
STRIDE = {"units": 3, "mel": 8}
FRAMES_A_STEP = 3
DILATIONS = (1, 1, 2, 4)


class Residual(nn.Module):
    """A convolution over 5 steps, normalised, added to its input: (B, T, width) to the same."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.dropout(F.relu(y))


class WordNetwork(nn.Module):
    """From units (B, T) or mel (B, T, bands) to log-probabilities (B, frames, LABELS).

    ``inputs`` is the number of units, or of bands; unit ``inputs`` stands for one that is not known.
    """

    def __init__(
        self, features: Features, inputs: int, width: int = 192, recurrent: int = 160, phones: int = 0
    ) -> None:
        super().__init__()
        self.options = {
            "features": features,
            "inputs": inputs,
            "width": width,
            "recurrent": recurrent,
            "phones": phones,
        }
        self.stride, narrow, dropout = STRIDE[features], width * 2 // 3, 0.1
        self.front: nn.Module = nn.Embedding(inputs + 1, narrow) if features == "units" else nn.Linear(inputs, narrow)
        self.down = nn.Conv1d(narrow, width, 2 * self.stride + 1, self.stride, padding=self.stride)
        self.residuals = nn.Sequential(*(Residual(width, dilation, dropout) for dilation in DILATIONS))
        self.context = nn.GRU(width, recurrent, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * recurrent, FRAMES_A_STEP * LABELS)
        self.phone_head = nn.Linear(width, FRAMES_A_STEP * phones) if phones else None

    def forward(self, heard: Tensor) -> Tensor:
        letters, _ = self.both(heard)
        return letters

    def both(self, heard: Tensor) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities of letters and, without the GRU, of phones where the network has a head for them."""
        x = F.relu(self.down(self.front(heard).transpose(1, 2))).transpose(1, 2)
        x = self.residuals(x)
        letters = _frames(self.head(self.dropout(self.context(x)[0])))
        return letters, None if self.phone_head is None else _frames(self.phone_head(x))

    def frames(self, lengths: Tensor) -> Tensor:
        """Frames that come of inputs of these lengths."""
        return ((lengths - 1) // self.stride + 1) * FRAMES_A_STEP


def _frames(logits: Tensor) -> Tensor:
    batch, steps, outputs = logits.shape
    return logits.reshape(batch, steps * FRAMES_A_STEP, outputs // FRAMES_A_STEP).float().log_softmax(-1)


def load_network(checkpoint: dict[str, Any]) -> WordNetwork:
    """The network of a checkpoint of ``tools.train.recognizer``, ready to listen."""
    network = WordNetwork(**checkpoint["options"])
    network.load_state_dict(checkpoint["network"])
    return network.eval()


def padded(heard: list[Tensor], value: float) -> tuple[Tensor, Tensor]:
    """A batch of sequences of any length, padded with ``value``, and their lengths."""
    return nn.utils.rnn.pad_sequence(heard, True, value), torch.tensor([len(one) for one in heard])
