"""Audio as the agent hears it, after the crop and the noise that a measurement asks for."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.evaluation.selection import identifier
from tools.train.data.augment import add_noise, coloured_noise
from tools.train.data.corpus import Item
from voiceid.audio.files import read_waveform
from voiceid.audio.utterance import prepare
from voiceid.types import SAMPLE_RATE, Samples, Utterance, Waveform

MIN_NET_SPEECH = 0.5
"""Seconds of speech that a judge alone needs; the agent's quality gate asks for more."""
SILENT = 1e-4
"""Peak below which a noise recording holds no noise."""


class UnfitError(Exception):
    """Audio that this measurement leaves out and counts; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``seconds``: a seeded crop of that length; ``snr_db``: noise at that distance below the speech's level.

    ``noise`` are the recordings to draw from; without any, pink noise is made.
    """

    seconds: float | None = None
    snr_db: float | None = None
    noise: tuple[Path, ...] = ()
    seed: int = 0


CLEAN = Condition()


def load_utterance(item: Item, condition: Condition = CLEAN) -> Utterance:
    """Read ``item``, apply ``condition`` and prepare it as the pipeline does.

    Raises:
        voiceid.errors.AudioError: missing or unreadable.
        UnfitError: shorter than the crop, or almost without speech.
    """
    waveform = read_waveform(item.path)
    rng = np.random.default_rng([condition.seed, zlib.crc32(identifier(item).encode())])
    samples = waveform.samples
    if condition.seconds is not None:
        samples = crop(samples, condition.seconds, rng)
    if condition.snr_db is not None:
        samples = add_noise(samples, _noise(condition.noise, len(samples), rng), condition.snr_db, rng)
    utterance = prepare(Waveform(samples, waveform.source))
    if utterance.quality.net_speech < MIN_NET_SPEECH:
        raise UnfitError(f"less than {MIN_NET_SPEECH} s of speech")
    return utterance


def crop(samples: Samples, seconds: float, rng: np.random.Generator) -> Samples:
    """A random stretch of ``seconds``.

    Raises:
        UnfitError: ``samples`` are shorter.
    """
    length = round(seconds * SAMPLE_RATE)
    if len(samples) < length:
        raise UnfitError(f"shorter than {seconds:g} s")
    start = int(rng.integers(0, len(samples) - length + 1))
    return samples[start : start + length]


def _noise(files: tuple[Path, ...], length: int, rng: np.random.Generator) -> Samples:
    """A seeded recording, or pink noise of ``length`` where there is none or it is silent."""
    if files:
        recording = read_waveform(files[int(rng.integers(len(files)))]).samples
        if float(np.abs(recording).max(initial=0.0)) > SILENT:
            return recording
    return coloured_noise(length, 1.0, rng)
