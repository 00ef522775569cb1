"""Phase-vocoder voice change: a development system, never trained on (Flanagan and Golden, 1966)."""

from __future__ import annotations

import librosa
import numpy as np
import soxr

from voiceid.types import SAMPLE_RATE, Samples


def shift(samples: Samples, random: np.random.Generator) -> Samples:
    """Pitch and formants moved together by 1 to 5 semitones, the duration kept."""
    factor = 2 ** (random.choice([-1, 1]) * random.uniform(1, 5) / 12)
    spectrum = librosa.stft(samples, n_fft=1024, hop_length=256)
    stretched = librosa.istft(librosa.phase_vocoder(spectrum, rate=1 / factor, hop_length=256), hop_length=256)
    moved = soxr.resample(stretched.astype(np.float32), SAMPLE_RATE * factor, SAMPLE_RATE)
    return np.resize(np.append(moved, np.zeros(max(0, len(samples) - len(moved)))), len(samples)).astype(np.float32)


def stretch(samples: Samples, random: np.random.Generator) -> Samples:
    """Time stretched by 10 to 40 % and back: the phase vocoder's smear at the original pitch and speed."""
    factor = random.uniform(1.1, 1.4)
    spectrum = librosa.stft(samples, n_fft=1024, hop_length=256)
    slow = librosa.phase_vocoder(spectrum, rate=1 / factor, hop_length=256)
    back = librosa.phase_vocoder(slow, rate=factor, hop_length=256)
    return librosa.istft(back, hop_length=256, length=len(samples)).astype(np.float32)
