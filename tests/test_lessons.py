"""Lessons: crops, what a teacher makes of them frame by frame, and how a student is given them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tools.train.data.lessons import BLOCK, BLOCKS, SAMPLES, SHARD, SPEEDS, Pool, make_shard
from tools.train.data.voices import Bank, Clip, open_bank
from tools.train.identity import HEARD, TRIPLET_SPEAKERS, TRIPLET_STRETCHES, Lessons, Voices, hard_triplets
from voiceid.types import SAMPLE_RATE


class Loudness:
    """A teacher whose every channel is the level of 20 ms, so that a lesson shows where in the crop it was heard."""

    def frames_batch(self, batch: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        level = np.abs(batch.reshape(len(batch), -1, BLOCK // 8)).mean(axis=2)
        return batch[:, :192] + 0.01, np.repeat(level[:, :, None], HEARD, axis=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of lessons from a bank of two voices whose level rises as they speak."""
    root = tmp_path_factory.mktemp("lessons")
    bank = root / "bank"
    bank.mkdir()
    rng = np.random.default_rng(1)
    seconds = 8
    rising = np.linspace(0.01, 0.5, seconds * SAMPLE_RATE) * rng.uniform(-1, 1, seconds * SAMPLE_RATE)
    np.save(bank / "audio.npy", (np.tile(rising, 2) * 32767).astype(np.int16))
    clips = [
        {"offset": i * len(rising), "length": len(rising), "speaker": name, "set": "made", "name": name}
        for i, name in enumerate(("anna", "bert"))
    ]
    (bank / "index.json").write_text(json.dumps(clips), "utf-8")
    pool = Pool.of([open_bank(bank)])
    for number in range(2):
        make_shard(root, number, pool, Loudness(), seed=3)  # type: ignore[arg-type]
    return root


def test_most_crops_are_nobody_s(folder: Path) -> None:
    labels = np.concatenate([np.load(folder / f"{n:03d}.label.npy") for n in range(2)])
    assert set(labels) == {"", "anna", "bert"}
    assert 0.7 < np.mean(labels == "") < 0.83
    assert SPEEDS[0] < 1 < SPEEDS[1]


def test_a_label_tells_who_alone_is_heard() -> None:
    lengths = (30_000, 50_000)
    audio = np.repeat(np.array([8_000, -8_000], np.int16), lengths)
    clips = (Clip(0, lengths[0], "anna", "made", "a"), Clip(lengths[0], lengths[1], "bert", "made", "b"))
    pool = Pool.of([Bank(audio, clips)])
    rng = np.random.default_rng(2)
    heard = {"anna": 0, "bert": 0, "": 0}
    both = 0
    for _ in range(300):
        samples, label = pool.crop(rng)
        assert samples.shape == (SAMPLES,)
        heard[label] += 1
        if label:
            assert np.all(samples > 0) if label == "anna" else np.all(samples < 0)
        both += bool(np.any(samples > 0.1) and np.any(samples < -0.1))
    assert min(heard.values()) > 20
    assert both > 10  # two voices in turn


def test_frames_belong_to_the_crop_they_are_handed_out_with(folder: Path) -> None:
    lessons = Lessons(folder)
    for blocks in (6, BLOCKS):
        chosen, crops, frames = lessons.draw(64, blocks, np.random.default_rng(5))
        assert crops.shape == (64, blocks * BLOCK)
        heard = frames[:, :, 0] * lessons.frame_deviation[0] + lessons.frame_mean[0]
        level = np.abs(crops.reshape(64, blocks, BLOCK)).mean(axis=2)
        # codecs change a third of the crops after the teacher heard them
        agreeing = [np.corrcoef(a, b)[0, 1] > 0.98 for a, b in zip(heard, level, strict=True)]
        assert np.mean(agreeing) > 0.6
        assert lessons.targets[chosen].shape == (64, 192)


def test_targets_are_unit_vectors_about_their_mean(folder: Path) -> None:
    lessons = Lessons(folder)
    np.testing.assert_allclose(np.linalg.norm(lessons.targets, axis=1), 1, atol=1e-5)


def test_shards_are_made_once_and_again_the_same(folder: Path, tmp_path: Path) -> None:
    before = np.load(folder / "001.audio.npy")
    make_shard(folder, 1, Pool([], [], np.zeros(0), {}), Loudness(), seed=9)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.load(folder / "001.audio.npy"), before)
    make_shard(tmp_path, 1, Pool.of([open_bank(folder / "bank")]), Loudness(), seed=3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.load(tmp_path / "001.audio.npy"), before)
    assert before.shape == (SHARD, SAMPLES)


def test_a_folder_without_lessons_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no lessons; make them with tools\.train\.data\.lessons"):
        Lessons(tmp_path)


def test_triplets_hold_several_stretches_of_each_of_several_speakers() -> None:
    length = 2 * SAMPLE_RATE
    audio = np.repeat(np.arange(1, 7, dtype=np.int16) * 1000, 2 * length)
    clips = tuple(Clip(i * length, length, f"speaker {i // 2}", "made", str(i)) for i in range(12))
    alone = Clip(0, length, "heard once", "made", "x")
    voices = Voices([Bank(audio, (*clips, alone))])
    assert sorted(voices.names) == [f"speaker {i}" for i in range(6)]
    drawn = voices.draw(SAMPLE_RATE, np.random.default_rng(1))
    assert drawn.shape == (TRIPLET_SPEAKERS * TRIPLET_STRETCHES, SAMPLE_RATE)
    spoken = drawn.reshape(TRIPLET_SPEAKERS, TRIPLET_STRETCHES, -1)
    assert all(len(np.unique(each)) == 1 for each in spoken)
    assert len(np.unique(spoken)) == TRIPLET_SPEAKERS
    with pytest.raises(SystemExit, match="have 1 speakers heard twice; triplets take 5"):
        Voices([Bank(audio, clips[:2])])


def test_the_hardest_triplets_count() -> None:
    angles = torch.tensor([0.0, 0.3, 1.0, 0.9])
    embeddings = torch.stack((angles.cos(), angles.sin()), dim=1)
    labels = torch.tensor([0, 0, 1, 1])
    # 0: .3 from its own, .9 from another; 1: .3 and .6; 2 and 3: .1, and .7 and .6
    own, other = torch.tensor([0.3, 0.3, 0.1, 0.1]).cos(), torch.tensor([0.9, 0.6, 0.7, 0.6]).cos()
    expected = torch.relu(0.2 + other - own).mean()
    assert hard_triplets(embeddings, labels, 0.2).item() == pytest.approx(expected.item(), abs=1e-6)
    assert expected > 0.01
    assert hard_triplets(embeddings, labels, 0.0).item() == 0
