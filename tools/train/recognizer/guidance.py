"""Phones of augmented utterances: labels of the clean recording (tools.train.phones), laid on by their envelopes.

Augmentation keeps an utterance's length but not always where it is trimmed, and another voice speaks faster or slower:
labels are moved to where the envelopes agree, and left out where they do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.train.units_data import load_speech, training_items
from voiceid.types import Samples

HOP = 160
FARTHEST = 80
"""Frames by which the trimming may differ."""
LEAST_SHARE = 0.7
"""Of the longer one that must overlap."""
LEAST_AGREEMENT = 0.75
Labels = NDArray[np.int16]


class Guide:
    """Phone labels by the name of a recording, with its clean envelope."""

    def __init__(self, labels: Path, cache: Path) -> None:
        """``labels`` is of tools.train.phones, ``cache`` its folder of prepared speech."""
        speech = load_speech(training_items(), cache)
        with np.load(labels) as table:
            known = {name: table[name] for name in table.files}
        self._known = {
            name: (envelope(speech.utterance(i)), known[name]) for i, name in enumerate(speech.names) if name in known
        }

    def __call__(self, name: str, heard: Samples) -> Labels | None:
        """Phones a frame of 10 ms of ``heard``, -1 where unknown; None where nothing is known of it."""
        if name not in self._known:
            return None
        clean, labels = self._known[name]
        return laid_on(labels, clean, envelope(heard))


def envelope(samples: Samples) -> NDArray[np.float64]:
    """Log energy of every 10 ms."""
    frames = samples[: len(samples) // HOP * HOP].reshape(-1, HOP).astype(np.float64)
    level: NDArray[np.float64] = np.log10(np.square(frames).mean(axis=1) + 1e-6)
    return level


def laid_on(labels: Labels, clean: NDArray[np.float64], heard: NDArray[np.float64]) -> Labels | None:
    """``labels`` of the frames of ``clean`` for those of ``heard``, moved to where the envelopes correlate best."""
    both = np.correlate(heard - np.mean(heard), clean - np.mean(clean), "full")
    shifts = np.arange(len(both)) - (len(clean) - 1)
    near = np.abs(shifts) <= FARTHEST
    shift = int(shifts[near][np.argmax(both[near])])
    here, there = max(0, shift), max(0, -shift)
    count = min(len(heard) - here, len(clean) - there)
    if count < LEAST_SHARE * max(len(heard), len(clean)):
        return None
    if np.corrcoef(heard[here : here + count], clean[there : there + count])[0, 1] < LEAST_AGREEMENT:
        return None
    count = min(count, len(labels) - there)
    result = np.full(len(heard), -1, np.int16)
    result[here : here + count] = labels[there : there + count]
    return result
