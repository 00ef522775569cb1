"""Conversion of any speech towards a person, from seconds of their speech: pitch and long-term spectrum, by WORLD."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.train.data.attacks import world
from voiceid.types import Samples

Floats = NDArray[np.float64]


def convert(samples: Samples, reference: Samples) -> Samples:
    """The words of ``samples`` (n,) with pitch and mean spectral envelope of ``reference``: (n,).

    Log pitch gets the reference's mean and deviation (Gaussian normalisation), the log envelope the reference's mean
    over voiced frames. Where one of them has no voiced frames, ``samples`` are only taken apart and put together.
    """
    pitch, envelope, aperiodicity = world.analyse(samples)
    their_pitch, their_envelope, _ = world.analyse(reference)
    voiced, theirs = pitch > 0, their_pitch > 0
    if voiced.any() and theirs.any():
        pitch[voiced] = np.exp(_normalised(np.log(pitch[voiced]), np.log(their_pitch[theirs])))
        envelope = envelope * np.exp(_mean_log(their_envelope[theirs]) - _mean_log(envelope[voiced]))
    return world.synthesise(pitch, np.ascontiguousarray(envelope), aperiodicity, len(samples))


def _normalised(values: Floats, wanted: Floats) -> Floats:
    """``values`` with mean and deviation of ``wanted``."""
    deviation = float(values.std())
    scale = float(wanted.std()) / deviation if deviation > 0 else 0.0
    result: Floats = wanted.mean() + scale * (values - values.mean())
    return result


def _mean_log(envelope: Floats) -> Floats:
    result: Floats = np.log(envelope).mean(axis=0)
    return result
