"""The consistency judge on embeddings whose change of speaker is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.store import find_model
from voiceid.scoring.consistency import NO_BOUNDARY, consistency_parameters, consistency_score


def voice(seed: int, count: int, spread: float = 0.3) -> np.ndarray:
    centre = np.random.default_rng(seed).normal(size=64)
    noise = np.random.default_rng(seed + 1000).normal(size=(count, 64)) * spread
    return unit(centre / np.linalg.norm(centre) * 8 + noise)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def sides(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean directions before and after each boundary between ``windows``."""
    at = range(1, len(windows))
    before, after = [windows[:i].mean(axis=0) for i in at], [windows[i:].mean(axis=0) for i in at]
    return unit(np.array(before)), unit(np.array(after))


OWNER = voice(1, 1, 0.0)[0]


def test_one_voice_scores_high_and_a_change_low_wherever_it_is() -> None:
    assert consistency_score(*sides(voice(1, 6)), OWNER) > 0.8
    for at in range(1, 6):
        spliced = np.concatenate([voice(1, at), voice(2, 6 - at)])
        assert consistency_score(*sides(spliced), OWNER) < 0.0, at
        assert consistency_score(*sides(spliced[::-1]), OWNER) < 0.0, at


def test_a_stranger_throughout_is_consistent() -> None:
    assert consistency_score(*sides(voice(2, 6)), OWNER) > 0.8


def test_too_short_for_a_change() -> None:
    nothing = np.zeros((0, 64), np.float32)
    assert consistency_score(nothing, nothing, OWNER) == NO_BOUNDARY


def with_entry(**changes: object) -> Card:
    """The shipped card with a changed consistency entry."""
    card = find_model("identity-pi", "identity").card
    return replace(card, parameters={"consistency": {**card.parameters["consistency"], **changes}})


def test_the_shipped_card_says_how_to_compare() -> None:
    parameters = consistency_parameters(with_entry())
    assert set(parameters.thresholds) == {"convenience", "balanced", "strict"}
    assert parameters.calibration(1.0) > parameters.thresholds["strict"].value


def test_a_card_without_parameters_says_what_to_run() -> None:
    card = replace(with_entry(), parameters={})
    with pytest.raises(ModelError, match=r"no 'consistency' parameters; run 'python -m tools\.train\.consistency'"):
        consistency_parameters(card)


def test_a_card_for_windows_of_earlier_versions_says_what_to_run() -> None:
    with pytest.raises(ModelError, match=r"windows of 1\.5 s.*run 'python -m tools\.train\.consistency'"):
        consistency_parameters(with_entry(window_seconds=1.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"least_seconds": 0.2}, r"least_seconds is 0\.2; it must lie between 0\.5 and 5"),
        ({"hop_seconds": 0}, r"hop_seconds is 0; it must lie between 0\.1 and 5"),
        ({"step": 1.0}, "unknown key 'step'"),
    ],
)
def test_malformed_parameters_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        consistency_parameters(with_entry(**changes))
