"""Front ends for spoofing detection: AASIST's fixed sinc filters, and a strided log spectrogram."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from voiceid.types import SAMPLE_RATE


class SincBank(nn.Module):
    """Fixed band-pass filters, mel-spaced over 0 to 8 kHz: (b, n) to (b, 70, n - 128).

    Ravanelli and Bengio, "Speaker Recognition from Raw Waveform with SincNet", equation 4, without learning. The
    filters are not part of the state dict: the official checkpoints hold none.
    """

    def __init__(self, filters: int = 70, taps: int = 129) -> None:
        super().__init__()
        mel_top = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
        edges = 700 * (10 ** (np.linspace(0, mel_top, filters + 1) / 2595) - 1)
        time = np.arange(-(taps - 1) / 2, (taps - 1) / 2 + 1)
        low_pass = 2 * edges[:, None] / SAMPLE_RATE * np.sinc(2 * edges[:, None] * time / SAMPLE_RATE)
        bank = np.hamming(taps) * np.diff(low_pass, axis=0)
        self.register_buffer("bank", torch.from_numpy(bank).float().unsqueeze(1), persistent=False)

    def forward(self, waveform: Tensor) -> Tensor:
        return F.conv1d(waveform.unsqueeze(1), self.bank)


class LogSpectrogram(nn.Module):
    """Log power spectrogram without the mean of each bin over time: (b, n) to (b, 256, 1 + (n - 400) // hop).

    Linear frequencies from 31 Hz to 8 kHz, 25 ms Hann windows. Removing each bin's mean takes out the colour of the
    channel. By FFT in torch; exported as two strided convolutions, which every ONNX runtime has.
    """

    def __init__(self, window: int = 400, hop: int = 160, size: int = 512, floor: float = 1e-5) -> None:
        super().__init__()
        time = np.arange(window)
        phase = 2 * np.pi * np.arange(1, size // 2 + 1)[:, None] * time / size
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * time / window)
        basis = np.concatenate((np.cos(phase), np.sin(phase))) * hann
        self.register_buffer("basis", torch.from_numpy(basis).float().unsqueeze(1), persistent=False)
        self.register_buffer("window", torch.from_numpy(hann).float(), persistent=False)
        self.hop, self.size, self.floor = hop, size, floor
        self.hertz = torch.arange(1, size // 2 + 1) * SAMPLE_RATE / size
        """Of each bin."""

    def forward(self, waveform: Tensor) -> Tensor:
        log_power = torch.log(self._power(waveform) + self.floor)
        return log_power - log_power.mean(dim=2, keepdim=True)

    def _power(self, waveform: Tensor) -> Tensor:
        if torch.onnx.is_in_onnx_export():
            real, imaginary = F.conv1d(waveform.unsqueeze(1), self.basis, stride=self.hop).chunk(2, dim=1)
            return real.square() + imaginary.square()
        frames = waveform.unfold(1, len(self.window), self.hop) * self.window
        return torch.fft.rfft(frames, self.size)[..., 1:].abs().square().transpose(1, 2)
