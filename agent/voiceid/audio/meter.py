"""Trying a microphone: how loud, how clean, and whether anybody spoke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from voiceid.audio.device import Backend, Microphone
from voiceid.audio.open_microphone import OpenMicrophone
from voiceid.audio.quality import measure_quality
from voiceid.audio.vad import speech_segments
from voiceid.errors import AudioDeviceError
from voiceid.settings import QualitySettings
from voiceid.types import SAMPLE_RATE, Quality, Samples

BLOCK = 0.1
"""Seconds between two readings of the meter."""
SILENCE_DBFS = -100.0
"""The meter's lowest reading."""


@dataclass(frozen=True, slots=True)
class MicrophoneTest:
    """What a try came to."""

    microphone: Microphone
    peak_dbfs: float
    quality: Quality
    """As of an utterance: its faults say what to mend."""
    dropped: int
    """Sample frames that were lost because this process was too slow."""
    overflows: int
    """Times the sound system lost audio."""


def try_microphone(
    backend: Backend,
    microphone: Microphone,
    seconds: float,
    settings: QualitySettings,
    *,
    on_level: Callable[[float, float], None],
) -> MicrophoneTest:
    """Listen for ``seconds``; ``on_level`` hears the seconds passed and the level (dBFS) of every block.

    Raises:
        AudioDeviceError: the microphone cannot be opened, is lost, or delivers only digital silence.
    """
    counts: Counter[str] = Counter()
    blocks: list[Samples] = []
    heard = 0
    with OpenMicrophone(backend, microphone, block=BLOCK, counts=counts) as stream:
        while heard < round(seconds * SAMPLE_RATE):
            if (received := stream.read(BLOCK)) is None:
                continue
            blocks.append(received[0])
            heard += len(received[0])
            on_level(heard / SAMPLE_RATE, dbfs(received[0]))
    samples = np.concatenate(blocks)
    if not samples.any():
        raise AudioDeviceError(f"{microphone.name!r} delivers only digital silence; unmute it and allow access to it")
    quality = measure_quality(samples, speech_segments(samples), settings)
    peak = max(SILENCE_DBFS, 20 * float(np.log10(np.abs(samples).max())))
    return MicrophoneTest(microphone, peak, quality, counts["dropped"], counts["overflows"])


def dbfs(samples: Samples) -> float:
    """RMS level in decibels relative to full scale, at least ``SILENCE_DBFS``."""
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if samples.size else 0.0
    return max(SILENCE_DBFS, 20 * float(np.log10(max(rms, 1e-10))))
