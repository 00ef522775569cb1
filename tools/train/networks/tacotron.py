"""Tacotron 2 (Shen et al., ICASSP 2018, arXiv 1712.05884) of several speakers: phones to a log-mel spectrogram.

To be used, not trained: dropout is left out but where it is part of speaking, in the pre-net.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

BANDS = 80
TEXT, SPEAKER, STATE, PRENET, ATTENTION, FILTERS, REACH = 256, 32, 512, 128, 64, 16, 31
MEMORY = TEXT + SPEAKER
PRENET_DROPOUT = 0.5


def _convolutions(*channels: int) -> nn.Sequential:
    return nn.Sequential(
        *(
            nn.Sequential(nn.Conv1d(inputs, outputs, 5, padding=2), nn.BatchNorm1d(outputs))
            for inputs, outputs in pairwise(channels)
        )
    )


class Encoder(nn.Module):
    """Phones (1, n) to what they are to the decoder (1, n, 256)."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, TEXT)
        self.convolutions = _convolutions(TEXT, TEXT, TEXT, TEXT)
        self.lstm = nn.LSTM(TEXT, TEXT // 2, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids).transpose(1, 2)
        for convolution in self.convolutions:
            hidden = convolution(hidden).relu()
        encoded: Tensor = self.lstm(hidden.transpose(1, 2))[0]
        return encoded


class LocationAttention(nn.Module):
    """Where in the phones the decoder is, given where it was."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(STATE, ATTENTION, bias=False)
        self.memory = nn.Linear(MEMORY, ATTENTION, bias=False)
        self.location = nn.Conv1d(2, FILTERS, REACH, padding=REACH // 2, bias=False)
        self.location_dense = nn.Linear(FILTERS, ATTENTION, bias=False)
        self.energy = nn.Linear(ATTENTION, 1, bias=False)

    def forward(self, state: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
        """``state`` (1, 512), ``keys`` (1, n, 64), last and summed ``weights`` (1, 2, n) to weights (1, n)."""
        places = self.location_dense(self.location(weights).transpose(1, 2))
        energies: Tensor = self.energy(torch.tanh(self.query(state)[:, None] + places + keys))
        return energies[..., 0].softmax(1)


class Decoder(nn.Module):
    """One frame after the other, until its gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.prenet = nn.ModuleList([nn.Linear(BANDS, PRENET, bias=False), nn.Linear(PRENET, PRENET, bias=False)])
        self.attention_rnn = nn.LSTMCell(PRENET + MEMORY, STATE)
        self.attention = LocationAttention()
        self.decoder_rnn = nn.LSTMCell(STATE + MEMORY, STATE)
        self.projection = nn.Linear(STATE + MEMORY, BANDS)
        self.gate = nn.Linear(STATE + MEMORY, 1)

    def forward(self, memory: Tensor, *, gate: float, most_frames: int) -> Tensor:
        """``memory`` (1, n, 288) to a spectrogram (1, 80, t)."""
        keys = self.attention.memory(memory)
        frame, context = memory.new_zeros(1, BANDS), memory.new_zeros(1, MEMORY)
        weights = memory.new_zeros(1, 2, memory.shape[1])
        listening = speaking = (memory.new_zeros(1, STATE), memory.new_zeros(1, STATE))
        frames: list[Tensor] = []
        while len(frames) < most_frames:
            for layer in self.prenet:
                frame = functional.dropout(layer(frame).relu(), PRENET_DROPOUT)
            listening = self.attention_rnn(torch.cat((frame, context), 1), listening)
            now = self.attention(listening[0], keys, weights)
            weights = torch.stack((now, weights[:, 1] + now), 1)
            context = (now[:, None] @ memory)[:, 0]
            speaking = self.decoder_rnn(torch.cat((listening[0], context), 1), speaking)
            said = torch.cat((speaking[0], context), 1)
            frame = self.projection(said)
            frames.append(frame)
            if float(self.gate(said).sigmoid()) > gate:
                break
        return torch.stack(frames, 2)


class Tacotron(nn.Module):
    """Phones and a speaker's vector to a spectrogram."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.encoder = Encoder(symbols)
        self.decoder = Decoder()
        self.postnet = _convolutions(BANDS, TEXT, TEXT, TEXT, TEXT, BANDS)
        self.speaker = nn.Linear(SPEAKER, SPEAKER)

    def forward(self, ids: Tensor, speaker: Tensor, *, gate: float = 0.5, most_frames: int = 1_000) -> Tensor:
        """``ids`` (1, n) and ``speaker`` (1, 32) to natural log-mel (1, 80, t); it ends where ``gate`` is passed."""
        encoded = self.encoder(ids)
        voice = self.speaker(speaker)[:, None].expand(-1, encoded.shape[1], -1)
        mel: Tensor = self.decoder(torch.cat((encoded, voice), 2), gate=gate, most_frames=most_frames)
        correction = mel
        for number, convolution in enumerate(self.postnet):
            correction = convolution(correction)
            if number < len(self.postnet) - 1:
                correction = correction.tanh()
        return mel + correction
