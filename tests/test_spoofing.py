"""The spoofing judge: windows, tiling, aggregation and cards that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.train.cards import write_card
from tools.train.export.spoofing import export
from tools.train.networks.aasist import SAMPLES, SHAPES, Aasist
from tools.train.spoofing_card import draft_card
from voiceid.errors import ModelError
from voiceid.models.card import Card, read_card
from voiceid.models.store import verify_model
from voiceid.scoring.spoofing import SpoofingModel
from voiceid.types import SAMPLE_RATE, Samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the shipped shape with random weights, and its card."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("models")
    torch.save({"shape": "light", "average": Aasist(SHAPES["light"]).state_dict()}, folder / "last.pt")
    export(folder / "last.pt", folder / "test.onnx")
    return folder


def load(card: Card, folder: Path) -> SpoofingModel:
    return SpoofingModel(verify_model(read_card(write_card(card, folder)), folder))


@pytest.fixture(scope="module")
def model(folder: Path) -> SpoofingModel:
    return load(draft_card("test"), folder)


def noise(seconds: float, seed: int = 0) -> Samples:
    random = np.random.default_rng(seed)
    return (0.05 * random.standard_normal(int(seconds * SAMPLE_RATE))).astype(np.float32)


def test_short_audio_is_repeated_to_fill_the_window(model: SpoofingModel) -> None:
    short = noise(1.3)
    ((segment, score),) = model.windows(short)
    assert (segment.start, segment.end) == (0.0, pytest.approx(1.3))
    assert score == pytest.approx(model.score(np.resize(short, SAMPLES)), abs=1e-5)


def test_long_audio_is_covered_by_windows_at_the_hop(model: SpoofingModel) -> None:
    windows = model.windows(noise(9.0))
    assert [round(segment.start, 2) for segment, _ in windows] == [0.0, 2.0, 4.0, 4.96]
    assert windows[-1][0].end == pytest.approx(9.0)
    assert all(segment.seconds == pytest.approx(SAMPLES / SAMPLE_RATE) for segment, _ in windows)


def test_each_window_is_scored_by_itself(model: SpoofingModel) -> None:
    samples = noise(9.0)
    _, second = model.windows(samples)[1]
    assert second == pytest.approx(model.score(samples[2 * SAMPLE_RATE : 2 * SAMPLE_RATE + SAMPLES]), abs=1e-5)


def test_score_is_the_mean_of_the_lower_half(model: SpoofingModel) -> None:
    samples = noise(9.0)
    scores = sorted(score for _, score in model.windows(samples))
    assert model.score(samples) == pytest.approx(np.mean(scores[:2]), abs=1e-6)
    assert model.score(samples) == model.aggregate(model.windows(samples))


def test_official_rule_counts_only_the_bona_fide_logit(model: SpoofingModel, folder: Path) -> None:
    rule = draft_card("test", parameters={"score": "bonafide-logit"})
    samples = noise(4.04)
    spoof_share = load(rule, folder).score(samples) - model.score(samples)
    swapped = draft_card("test", parameters={"score": "logit-difference", "hop_seconds": 1.0})
    assert spoof_share != pytest.approx(0.0, abs=1e-4)
    assert load(swapped, folder).score(samples) == pytest.approx(model.score(samples), abs=1e-5)


def test_no_samples_are_refused(model: SpoofingModel) -> None:
    with pytest.raises(ValueError, match="no samples"):
        model.windows(np.zeros(0, np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_seconds": None}, "no window_seconds"),
        ({"parameters": {"score": "loudness"}}, "'loudness'"),
        ({"parameters": {"hop_seconds": 0.0}}, "hop 0"),
        ({"parameters": {"hop_seconds": 5.0}}, "hop 80000"),
    ],
)
def test_cards_that_do_not_fit_are_refused(folder: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(draft_card("test", **changes), folder)


def test_other_input_names_are_refused(folder: Path) -> None:
    card = read_card(write_card(draft_card("test"), folder))
    renamed = replace(card, inputs={"audio": card.inputs["waveform"]})
    with pytest.raises(ModelError, match="audio"):
        SpoofingModel(verify_model(renamed, folder))
