"""The control classifier: finds a planted cue, and finds none in what the data engine makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.train.control import CUES, cues, train_control
from tools.train.data import spoofing
from tools.train.data.channel import Codec
from tools.train.metrics import eer
from voiceid.types import SAMPLE_RATE, Samples

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


def test_short_recordings_of_one_person_are_joined_without_silence(corpus: Path) -> None:
    crops = [crop for crop in spoofing.genuine_crops("train", np.random.default_rng(3)) if crop.joined]
    assert len(crops) > 300
    assert len({crop.item.speaker for crop in crops}) == len(crops)
    for crop in crops[:5]:
        items = (crop.item, *crop.joined)
        assert {(item.set, item.speaker) for item in items} == {(crop.item.set, crop.item.speaker)}
        samples = spoofing.read_crop(crop)
        joined = sum(item.seconds for item in items) - (len(items) - 1) * spoofing.CROSSFADE / SAMPLE_RATE
        assert len(samples) / SAMPLE_RATE == pytest.approx(min(joined, 72_600 / SAMPLE_RATE), abs=0.02)


def test_a_crossfade_keeps_the_level_of_a_constant() -> None:
    one = np.full(1_000, 0.5, np.float32)
    both = spoofing.crossfaded(one, one)
    assert len(both) == 2_000 - spoofing.CROSSFADE
    np.testing.assert_allclose(both, 0.5, rtol=1e-6)


def test_the_codec_stands_at_the_same_places_for_both_classes(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only one class passes, or passes in another order, would tell the classes apart."""
    chain: list[str] = []

    def step(name: str) -> Callable[..., Samples]:
        def passed(samples: Samples, *given: object, **options: object) -> Samples:
            codec = next((each.subtype for each in given if isinstance(each, Codec)), None)
            chain.append(f"{name} {codec or options or ''}".rstrip())
            return samples

        return passed

    random = np.random.default_rng(6)
    crops = [crop for crop in spoofing.genuine_crops("train", random) if not crop.joined]
    chosen = [next(crop for crop in crops if crop.codec == codec) for codec in ("opus", "flac")]
    for name in ("channel", "stored", "through_codec"):
        monkeypatch.setattr(spoofing, name, step(name))
    monkeypatch.setattr(spoofing, "TRAIN_SYSTEMS", {"identical": lambda samples, _: samples})
    monkeypatch.setattr(spoofing, "synthetic_files", lambda split: {})
    for crop, codec in (*((crop, crop.codec) for crop in chosen), (chosen[0], "vorbis")):
        chain.clear()
        monkeypatch.setattr(spoofing.Crop, "codec", codec)
        rows = [row for _, row in spoofing.windows_of([crop], "train", random)]
        made = 1 + spoofing.COPIES[codec]
        assert [row.label for row in rows] == ([1] + [0] * (made - 1)) * spoofing.CHANNELS
        coded = 0 if codec == "flac" else made - 1
        assert chain[:coded] == [f"through_codec {codec.upper()}"] * coded
        assert chain[coded:] == ["channel", f"stored {{'opus': {spoofing.OPUS[codec]}}}"] * (made * spoofing.CHANNELS)
