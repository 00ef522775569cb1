"""The quality gate: whether an utterance is fit to be judged at all."""

from __future__ import annotations

import numpy as np

from voiceid.audio.level import speech_rms
from voiceid.settings import QualitySettings
from voiceid.types import SAMPLE_RATE, Quality, QualityFault, Samples, Segment

CLIP_LEVEL = 0.985
SILENCE_RMS = 1e-5
"""-100 dBFS: below any microphone's own noise, so the device delivers digital silence."""
SNR_CAP = 60.0
FRAME = 320
"""Samples of one level frame (20 ms) for the noise floor."""


def measure_quality(samples: Samples, speech: tuple[Segment, ...], settings: QualitySettings) -> Quality:
    """Measure ``samples`` (float32 (n,), 16 kHz, as captured) against ``settings``; never raises."""
    net = sum(segment.seconds for segment in speech)
    dc = float(samples.mean(dtype=np.float64)) if samples.size else 0.0
    centred = samples - np.float32(dc)
    level = 20 * np.log10(max(speech_rms(centred, speech), 1e-10)) if samples.size else -200.0
    clipped = _clipped_fraction(samples)
    snr = _snr_db(centred, speech)
    faults: list[QualityFault] = []
    if not samples.size or float(np.sqrt(np.mean(np.square(centred, dtype=np.float64)))) < SILENCE_RMS:
        faults.append(QualityFault.SILENT)
    elif net < settings.min_net_speech:
        faults.append(QualityFault.TOO_SHORT)
    else:
        if level < settings.min_speech_dbfs:
            faults.append(QualityFault.TOO_QUIET)
        if clipped > settings.max_clipped:
            faults.append(QualityFault.CLIPPED)
        if snr < settings.min_snr_db:
            faults.append(QualityFault.TOO_NOISY)
    return Quality(len(samples) / SAMPLE_RATE, net, float(level), snr, clipped, dc, tuple(faults))


def _clipped_fraction(samples: Samples) -> float:
    """Share of samples in flat runs at the recording's own ceiling, whatever that ceiling is scaled to."""
    if samples.size < 2:
        return 0.0
    magnitude = np.abs(samples)
    ceiling = float(magnitude.max())
    if ceiling < 0.1:
        return 0.0
    at_ceiling = magnitude >= (CLIP_LEVEL if ceiling >= CLIP_LEVEL else ceiling * 0.9999)
    flat = at_ceiling[1:] & at_ceiling[:-1]
    return float(flat.mean())


def _snr_db(samples: Samples, speech: tuple[Segment, ...]) -> float:
    """Speech level over the noise floor: the mean of the quietest tenth of 20 ms frames stands for the noise."""
    count = len(samples) // FRAME
    if count < 10 or not speech:
        return 0.0
    power = np.square(samples[: count * FRAME].reshape(count, FRAME), dtype=np.float64).mean(axis=1)
    noise = float(np.sort(power)[: max(1, count // 10)].mean())
    signal = speech_rms(samples, speech) ** 2
    if noise <= 0:
        return SNR_CAP
    return float(min(SNR_CAP, 10 * np.log10(max(signal - noise, noise * 1e-3) / noise)))
