"""Front ends for spoofing detection: AASIST's fixed sinc filters, and a log spectrogram, without and with its phase."""

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

    def forward(self, waveform: Tensor) -> Tensor:
        return self._level(*self._spectrum(waveform))

    def _level(self, real: Tensor, imaginary: Tensor) -> Tensor:
        log_power = torch.log(real.square() + imaginary.square() + self.floor)
        return log_power - log_power.mean(dim=2, keepdim=True)

    def _spectrum(self, waveform: Tensor) -> tuple[Tensor, Tensor]:
        """Real and imaginary parts, (b, 256, t) each."""
        if torch.onnx.is_in_onnx_export():
            real, imaginary = F.conv1d(waveform.unsqueeze(1), self.basis, stride=self.hop).chunk(2, dim=1)
            return real, -imaginary
        frames = waveform.unfold(1, len(self.window), self.hop) * self.window
        spectrum = torch.fft.rfft(frames, self.size)[..., 1:].transpose(1, 2)
        return spectrum.real, spectrum.imag


class PhaseSpectrogram(LogSpectrogram):
    """The log spectrogram and how its phase moves: (b, n) to (b, 5, 256, 1 + (n - 400) // hop).

    Vocoders give the right power at phases of their own making. Behind the level come cosine and sine of how far a
    bin's phase advances from frame to frame beyond what its frequency asks for (its instantaneous frequency), and of
    how far it moves from bin to bin (its group delay, from the window's centre): parts of cross spectra of unit
    length, near zero where there is no power.
    """

    CHANNELS = 5

    def __init__(self, window: int = 400, hop: int = 160, size: int = 512, floor: float = 1e-5) -> None:
        super().__init__(window, hop, size, floor)
        advance = 2 * np.pi * np.arange(1, size // 2 + 1)[:, None] * hop / size
        delay = np.full((size // 2, 1), -np.pi * window / size)
        for name, angle in (("advance", advance), ("delay", delay)):
            turn = torch.from_numpy(np.stack((np.cos(angle), np.sin(angle)))).float()
            self.register_buffer(name, turn, persistent=False)

    def forward(self, waveform: Tensor) -> Tensor:
        real, imaginary = self._spectrum(waveform)
        later, earlier = (real[:, :, 1:], imaginary[:, :, 1:]), (real[:, :, :-1], imaginary[:, :, :-1])
        moves = [F.pad(part, (1, 0)) for part in self._turned(later, earlier, self.advance)]
        above, below = (real[:, 1:], imaginary[:, 1:]), (real[:, :-1], imaginary[:, :-1])
        delays = [F.pad(part, (0, 0, 0, 1)) for part in self._turned(above, below, self.delay[:, 1:])]
        return torch.stack([self._level(real, imaginary), *moves, *delays], dim=1)

    def _turned(
        self, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], turn: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Unit cross spectrum of ``first`` and ``second``, turned back by the angle whose parts are ``turn``."""
        real = first[0] * second[0] + first[1] * second[1]
        imaginary = first[1] * second[0] - first[0] * second[1]
        length = (real.square() + imaginary.square() + self.floor**2).sqrt() + self.floor
        cosine, sine = turn[0], turn[1]
        return (real * cosine + imaginary * sine) / length, (imaginary * cosine - real * sine) / length
