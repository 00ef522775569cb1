"""Batches of the spoofing detector: attacks by share, and each copy beside the window that it copies."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.train.data.spoofing import Window, shard_folder
from tools.train.networks.aasist import SAMPLES, SHAPES, Aasist
from tools.train.spoofing import Batch, Options, Windows, masked, optimiser_of, originals, train, train_step

GENUINE = Window(1, "genuine", "read", "ada", "opus")
ROWS = [
    GENUINE,
    Window(0, "lpc", "read", "ada", "opus"),
    Window(0, "kokoro", "kokoro", "af", "flac"),
    Window(1, "genuine", "read", "bob", "opus"),
    Window(0, "melgan", "read", "bob", "opus"),
    Window(0, "lpc", "read", "eve", "opus"),
]


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Windows:
    """One shard in which every copy is its original at half the level."""
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    speech = np.random.default_rng(0).integers(-9_000, 9_000, (3, SAMPLES)) * 2
    samples = np.stack([speech[0], speech[0] // 2, speech[2], speech[1], speech[1] // 2, speech[2]]).astype(np.int16)
    path = shard_folder("train") / "00-000.npy"
    np.save(path, samples)
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(GENUINE)))
        writer.writeheader()
        writer.writerows(asdict(row) for row in ROWS)
    return Windows("train")


def test_a_copy_knows_its_original_and_nothing_else_does() -> None:
    assert list(originals(ROWS)) == [-1, 0, -1, -1, 3, -1]


def test_a_copy_comes_with_its_original_in_the_same_augmentation(
    windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.train.spoofing.NOISE_SHARE", 0.0)
    batch = windows.batch(64, SAMPLES // 2, np.random.default_rng(1))
    genuine, attacks = batch.waveforms.chunk(2)
    assert batch.waveforms.shape == (64, SAMPLES // 2)
    assert batch.paired.any() and not batch.paired.all()
    torch.testing.assert_close(genuine[batch.paired] / 2, attacks[batch.paired], atol=1e-4, rtol=0)
    assert not torch.isclose(genuine[~batch.paired] / 2, attacks[~batch.paired], atol=1e-4).all(dim=1).any()


def test_a_pair_is_masked_alike() -> None:
    kept = masked(torch.ones(12, 64, 100), np.random.default_rng(0))
    assert torch.equal(kept[:6], kept[6:])
    assert not torch.equal(kept[0], kept[1])


def test_pairs_are_ranked_and_others_are_not(windows: Windows) -> None:
    batch = windows.batch(8, SAMPLES // 2, np.random.default_rng(0))
    losses = []
    for paired in (torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool)):
        torch.manual_seed(0)
        model = Aasist(SHAPES["light"]).train()
        random = np.random.default_rng(0)
        losses.append(train_step(model, optimiser_of(model, 1e-3), Batch(batch.waveforms, paired), random, False))
    # A network that knows nothing yet scores both alike: softplus(0).
    assert losses[1] - losses[0] == pytest.approx(np.log(2), abs=0.3)


def test_a_run_that_began_with_other_weights_ends_with_the_mean_of_both(windows: Windows, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    options = Options("light", steps=2, batch=4, rate=1e-3, seed=0)
    train(first, options, "cpu")
    assert not (first / "blend.pt").exists()
    for _ in range(2):  # a finished run, too
        train(second, options, "cpu", start_from=first / "last.pt")
    begun, ended, blend = (
        torch.load(path, weights_only=True)["average"]
        for path in (first / "last.pt", second / "last.pt", second / "blend.pt")
    )
    name = "out_layer.weight"
    assert not torch.equal(begun[name], ended[name])
    torch.testing.assert_close(blend[name], (begun[name] + ended[name]) / 2)
