"""The copy-synthesis systems by name, and which of them may train."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tools.train.data.attacks import (
    griffin_lim,
    hifigan,
    lpc,
    mb_melgan,
    melgan,
    neural,
    phase_vocoder,
    spectral,
    vocoder,
    world,
)
from voiceid.types import Samples

System = Callable[[Samples, np.random.Generator], Samples]

TRAIN_SYSTEMS: dict[str, System] = {
    "world-copy": world.copy,
    "world-shift": world.shift,
    "griffin-lim-linear": griffin_lim.linear,
    "griffin-lim-mel": griffin_lim.mel,
    "lpc": lpc.vocode,
    "mel-noise": spectral.mel_noise,
    "smoothed": spectral.smoothed,
    "phase-drift": spectral.phase_drift,
    "images": spectral.images,
    "neural": neural.copy,
    "melgan": melgan.copy,
    "mb-melgan": mb_melgan.copy,
    "hifigan-universal": hifigan.universal,
    "hifigan-small": hifigan.small,
    "vocoder-upsampling": vocoder.copier("upsampling-256"),
    "vocoder-spectral": vocoder.copier("spectral-160"),
}
DEV_SYSTEMS: dict[str, System] = {
    "phase-vocoder-shift": phase_vocoder.shift,
    "phase-vocoder-stretch": phase_vocoder.stretch,
    "neural-unseen": neural.dev_copy,
    "hifigan-one-voice": hifigan.one_voice,
    "vocoder-unseen": vocoder.copier("upsampling-160"),
}
