"""Copies by vocoders that others trained on the log-mel spectrogram of Tacotron 2: 80 bands to 8 kHz at 22.05 kHz."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import librosa
import numpy as np
import soxr
import torch
from torch import Tensor

from voiceid.types import SAMPLE_RATE, Samples

BANDS, HOP, FFT, RATE = 80, 256, 1024, 22_050


def copy_by(
    vocoder: Callable[[Tensor], Tensor], samples: Samples, *, peak: float, blurred: bool = False
) -> Samples:  # fmt: skip
    """float32 (n,) to its copy by ``vocoder`` (natural log-mel (1, 80, t) to waveform (1, 256 t)), heard at ``peak``.

    ``blurred`` smooths the spectrogram over three frames, as a synthesizer predicts it.
    """
    gain = np.float32(peak / (float(np.abs(samples).max()) + 1e-9))
    native = torch.from_numpy(soxr.resample(samples * gain, SAMPLE_RATE, RATE))
    spectrum = torch.stft(native, FFT, HOP, window=torch.hann_window(FFT), return_complex=True).abs()
    mel = (_triangles() @ spectrum).clamp_min(1e-5).log()[None]
    if blurred:
        mel = torch.nn.functional.avg_pool1d(mel, 3, 1, 1, count_include_pad=False)
    copied = vocoder(mel)[0, : len(native)].float().numpy()
    back = soxr.resample(copied, RATE, SAMPLE_RATE)[: len(samples)] / gain
    return np.pad(back, (0, len(samples) - len(back))).astype(np.float32)


@cache
def _triangles() -> Tensor:
    return torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=FFT, n_mels=BANDS, fmax=8_000.0))
