"""The agent's front end in torch, so that gradients reach the recording: level policy, net speech, filter banks.

What a recording's own samples decide (where speech is) is measured once, by the agent's own code, and then held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from voiceid.audio.level import PEAK, SPEECH_DBFS
from voiceid.audio.utterance import MARGIN
from voiceid.audio.vad import speech_segments
from voiceid.features.mel import FLOOR, FRAME, HOP, NFFT, mel_triangles
from voiceid.types import SAMPLE_RATE, Samples

KALDI_BANDS = 80
KALDI_LOW = 20.0


@dataclass(frozen=True, slots=True)
class Cut:
    """Where :func:`voiceid.audio.prepare` finds the utterance in a recording, and the speech in the utterance.

    ``speech`` are (start, end) in samples from ``start``.
    """

    start: int
    end: int
    speech: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, samples: Samples) -> Cut:
        """The cut of ``samples`` (n,), in [-1, 1] at 16 kHz; all of it where there is no speech."""
        segments = speech_segments(samples)
        if not segments:
            return cls(0, len(samples), ((0, len(samples)),))
        start = max(0, int((segments[0].start - MARGIN) * SAMPLE_RATE))
        end = min(len(samples), int((segments[-1].end + MARGIN) * SAMPLE_RATE))
        offset = start / SAMPLE_RATE
        inside = ((int((s.start - offset) * SAMPLE_RATE), int((s.end - offset) * SAMPLE_RATE)) for s in segments)
        return cls(start, end, tuple(inside))

    def level(self, recording: Tensor) -> Tensor:
        """The utterance in ``recording`` (n,), in [-1, 1]: trimmed, without DC, its speech at the policy's level."""
        utterance = recording[self.start : self.end]
        utterance = utterance - utterance.mean()
        rms = self.net_speech(utterance).square().mean().sqrt().clamp_min(1e-7)
        return (utterance * (10 ** (SPEECH_DBFS / 20) / rms)).clamp(-PEAK, PEAK)

    def net_speech(self, utterance: Tensor) -> Tensor:
        """The speech segments of the ``utterance`` (m,), joined."""
        return torch.cat([utterance[start:end] for start, end in self.speech])


class LogMel(nn.Module):
    """:func:`voiceid.features.mel.log_mel`: (b, n) to (b, t, bands), equal to it within 1e-3."""

    def __init__(self, bands: int = 64) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME), persistent=False)
        self.register_buffer("triangles", torch.from_numpy(mel_triangles(bands)), persistent=False)
        self.window: Tensor
        self.triangles: Tensor

    def forward(self, waveform: Tensor) -> Tensor:
        frames = waveform.unfold(1, FRAME, HOP) * self.window
        power = torch.fft.rfft(frames, NFFT).abs().square() / NFFT
        energies: Tensor = (power @ self.triangles).clamp_min(FLOOR).log()
        return energies


class KaldiBank(nn.Module):
    """Kaldi's 80-band log filter bank minus its mean over time, as CAM++ hears it: (b, n) to (b, t, 80).

    Equal to :func:`tools.train.teachers.campplus.kaldi_fbank` within 5e-3.
    """

    def __init__(self) -> None:
        super().__init__()
        hann = torch.hann_window(FRAME, periodic=False, dtype=torch.float64)
        self.register_buffer("window", (hann**0.85).float(), persistent=False)
        self.register_buffer("triangles", torch.from_numpy(_kaldi_triangles()), persistent=False)
        self.window: Tensor
        self.triangles: Tensor

    def forward(self, waveform: Tensor) -> Tensor:
        frames = waveform.unfold(1, FRAME, HOP)
        frames = frames - frames.mean(dim=2, keepdim=True)
        before = torch.cat([frames[..., :1], frames[..., :-1]], dim=2)
        power = torch.fft.rfft((frames - 0.97 * before) * self.window, NFFT).abs().square()
        bands: Tensor = (power @ self.triangles).clamp_min(torch.finfo(torch.float32).eps).log()
        return bands - bands.mean(dim=1, keepdim=True)


def _kaldi_triangles() -> NDArray[np.float32]:
    """(257, 80) triangles that are straight in mel, 1127 ln(1 + f / 700), from 20 Hz to 8 kHz; none at 8 kHz itself."""
    low, high = (float(_kaldi_mel(np.array(hertz))) for hertz in (KALDI_LOW, SAMPLE_RATE / 2))
    corners = np.linspace(low, high, KALDI_BANDS + 2)
    bins = _kaldi_mel(np.fft.rfftfreq(NFFT, 1 / SAMPLE_RATE))[:, None]
    width = corners[1] - corners[0]
    rising, falling = (bins - corners[:-2]) / width, (corners[2:] - bins) / width
    triangles = np.maximum(0, np.minimum(rising, falling))
    triangles[-1] = 0
    return np.asarray(triangles, np.float32)


def _kaldi_mel(hertz: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(1127 * np.log1p(hertz / 700), np.float64)
