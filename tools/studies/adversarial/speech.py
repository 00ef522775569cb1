"""Recordings as the agent hears them, and files of 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from tools.studies.results import whole_file
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples, Utterance, Waveform

FULL_SCALE = 32_768
LEAST_SPEECH = 0.5
"""Seconds of speech that an embedding needs."""
Pcm = NDArray[np.int16]


def read_utterance(path: Path) -> tuple[Waveform, Utterance]:
    """The recording and the utterance in it.

    Raises:
        AudioError: unreadable, or almost without speech.
    """
    waveform = read_waveform(path)
    utterance = prepare(waveform)
    seconds = len(utterance.net_speech()) / SAMPLE_RATE
    if seconds < LEAST_SPEECH:
        raise AudioError(f"{path}: {seconds:.2f} s of speech; an embedding needs {LEAST_SPEECH} s")
    return waveform, utterance


def to_pcm(samples: Samples) -> Pcm:
    """float32 in [-1, 1] to int16, rounded and clamped."""
    return np.clip(np.round(samples * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def write_pcm(path: Path, pcm: Pcm) -> None:
    """Write FLAC of 16 bits, whole or not at all."""
    with whole_file(path) as temporary:
        soundfile.write(temporary, pcm, SAMPLE_RATE, subtype="PCM_16", format="FLAC")
