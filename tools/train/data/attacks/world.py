"""WORLD copy-synthesis, with or without a shift of pitch and formants (Morise et al., 2016)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceid.types import SAMPLE_RATE, Samples

FRAME_MS = 5.0


def copy(samples: Samples, random: np.random.Generator) -> Samples:
    """Analysis and synthesis; half of the time through mel-cepstra as a parametric synthesizer would store them."""
    pitch, envelope, aperiodicity = analyse(samples)
    if random.random() < 0.5:
        import pyworld  # the extra [train]

        order = int(random.integers(24, 60))
        coded = pyworld.code_spectral_envelope(envelope, SAMPLE_RATE, order)
        envelope = pyworld.decode_spectral_envelope(coded, SAMPLE_RATE, 2 * (envelope.shape[1] - 1))
    return synthesise(pitch, envelope, aperiodicity, len(samples))


def shift(samples: Samples, random: np.random.Generator) -> Samples:
    """Another voice: pitch by -6 to +6 semitones, formants by -15 to +15 %."""
    semitones = random.uniform(-6, 6)
    return shifted(samples, semitones, 2 ** random.uniform(-0.2, 0.2))


def shifted(samples: Samples, semitones: float, stretch: float) -> Samples:
    """Pitch moved by ``semitones``, the spectral envelope stretched along frequency by the factor ``stretch``."""
    pitch, envelope, aperiodicity = analyse(samples)
    bins = np.arange(envelope.shape[1])
    source = np.clip(bins / stretch, 0, bins[-1])
    low = np.minimum(source.astype(int), bins[-1] - 1)
    part = source - low
    logs = np.log(envelope)
    envelope = np.exp((1 - part) * logs[:, low] + part * logs[:, low + 1])
    return synthesise(pitch * 2 ** (semitones / 12), np.ascontiguousarray(envelope), aperiodicity, len(samples))


def analyse(samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Pitch in Hz, 0 where unvoiced, (t,), spectral envelope and aperiodicity (t, bins), a frame each 5 ms."""
    import pyworld  # the extra [train]

    signal = samples.astype(np.float64)
    pitch, times = pyworld.dio(signal, SAMPLE_RATE, frame_period=FRAME_MS)
    pitch = pyworld.stonemask(signal, pitch, times, SAMPLE_RATE)
    envelope = pyworld.cheaptrick(signal, pitch, times, SAMPLE_RATE)
    return pitch, envelope, pyworld.d4c(signal, pitch, times, SAMPLE_RATE)


def synthesise(
    pitch: NDArray[np.float64], envelope: NDArray[np.float64], aperiodicity: NDArray[np.float64], length: int
) -> Samples:
    """What :func:`analyse` took apart as ``length`` samples."""
    import pyworld  # the extra [train]

    signal = pyworld.synthesize(pitch, envelope, aperiodicity, SAMPLE_RATE, FRAME_MS)
    return np.resize(np.append(signal, np.zeros(max(0, length - len(signal)))), length).astype(np.float32)
