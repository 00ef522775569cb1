"""The control classifier: finds a planted cue, and finds none in what the data engine makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.train.control import CUES, cues, train_control
from tools.train.data import spoofing
from tools.train.metrics import eer
from voiceid.types import SAMPLE_RATE

FAST_SYSTEMS = ("griffin-lim-mel", "mel-noise", "smoothed", "images")


def noise(random: np.random.Generator, level: float) -> NDArray[np.int16]:
    samples = random.standard_normal(2 * SAMPLE_RATE) * level * random.uniform(0.5, 2.0)
    return np.round(np.clip(samples, -1, 1) * 32_767).astype(np.int16)


def test_a_difference_in_level_is_found_and_equal_levels_are_not() -> None:
    random = np.random.default_rng(0)
    labels = np.tile([1, 0], 100)

    def error(other: float) -> float:
        windows = [noise(random, 0.05 if label else other) for label in labels]
        scores = train_control(windows[:100], labels[:100]).score(windows[100:])
        return eer(scores[labels[100:] == 1], scores[labels[100:] == 0])

    assert error(0.2) < 0.1
    assert error(0.05) > 0.3


def test_repetition_is_a_cue() -> None:
    window = np.resize(noise(np.random.default_rng(1), 0.1)[:SAMPLE_RATE], 3 * SAMPLE_RATE)
    assert cues(window)[CUES.index("period")] == 1.0


def test_level_length_bandwidth_and_codec_do_not_tell_copies_from_genuine_speech(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = {name: spoofing.TRAIN_SYSTEMS[name] for name in FAST_SYSTEMS}
    monkeypatch.setattr(spoofing, "TRAIN_SYSTEMS", systems)
    monkeypatch.setattr(spoofing, "synthetic_files", lambda split: {})
    random = np.random.default_rng(5)
    crops = spoofing.genuine_crops("train", random)[:24]
    made = list(spoofing.windows_of(crops, "train", random))
    windows, labels = [window for window, _ in made], np.array([row.label for _, row in made])
    half = len(made) // 2
    scores = train_control(windows[:half], labels[:half]).score(windows[half:])
    assert eer(scores[labels[half:] == 1], scores[labels[half:] == 0]) > 0.3
