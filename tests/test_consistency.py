"""The consistency judge on embeddings whose change of speaker is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.store import find_model
from voiceid.scoring.consistency import consistency_parameters, consistency_score, takeover_score
from voiceid.scoring.voice import Voice


def voice(seed: int, count: int, spread: float = 0.3) -> np.ndarray:
    centre = np.random.default_rng(seed).normal(size=64)
    noise = np.random.default_rng(seed + 1000).normal(size=(count, 64)) * spread
    return unit(centre / np.linalg.norm(centre) * 8 + noise)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def heard(windows: np.ndarray) -> Voice:
    """Mean directions before and after each boundary between ``windows``."""
    at = range(1, len(windows))
    before, after = [windows[:i].mean(axis=0) for i in at], [windows[i:].mean(axis=0) for i in at]
    sides = [unit(np.array(side).reshape(-1, 64)) for side in (before, after)]
    return Voice(windows.mean(axis=0), float(len(windows)), *sides, windows, (), ())


def cosines(references: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    return np.sum(references * embeddings, axis=1)


OWNER = voice(1, 1, 0.0)[0]


def score(windows: np.ndarray) -> float:
    raw = consistency_score(heard(windows), OWNER, cosines)
    assert raw is not None
    return raw


def test_one_voice_scores_high_and_a_change_low_wherever_it_is() -> None:
    assert score(voice(1, 6)) > 1.3
    for at in range(1, 6):
        spliced = np.concatenate([voice(1, at), voice(2, 6 - at)])
        assert score(spliced) < 0.4, at
        assert score(spliced[::-1]) < 0.4, at


def test_without_an_enrolled_speaker_a_change_scores_lower_than_one_voice() -> None:
    def alone(windows: np.ndarray) -> float:
        raw = consistency_score(heard(windows), None, cosines)
        assert raw is not None
        return raw

    assert min(alone(voice(1, 6)), alone(voice(2, 6))) > 0.8
    for at in range(1, 6):
        assert alone(np.concatenate([voice(1, at), voice(2, 6 - at)])) < 0.4, at
    assert consistency_score(heard(voice(1, 1)), None, cosines) is None


def test_a_stranger_throughout_is_more_consistent_than_a_splice() -> None:
    assert score(voice(2, 6)) > 0.8


def test_too_short_for_a_change() -> None:
    assert consistency_score(heard(voice(1, 1)), OWNER, cosines) is None


def test_a_takeover_scores_lower_than_a_stranger_throughout() -> None:
    def takeover(windows: np.ndarray) -> float:
        raw = takeover_score(heard(windows), OWNER, cosines)
        assert raw is not None
        return raw

    stranger = takeover(voice(2, 6))
    assert stranger > 0.6
    for at in range(1, 6):
        spliced = np.concatenate([voice(1, at), voice(2, 6 - at)])
        assert max(takeover(spliced), takeover(spliced[::-1])) < stranger - 0.5, at
    two_strangers = np.concatenate([voice(2, 3), voice(3, 3)])
    assert takeover(two_strangers) > takeover(np.concatenate([voice(1, 3), voice(3, 3)])) + 0.5
    assert takeover_score(heard(voice(1, 1)), OWNER, cosines) is None


def with_entry(**changes: object) -> Card:
    """The shipped card with a changed consistency entry."""
    card = find_model("identity-pi", "identity").card
    return replace(card, parameters={"consistency": {**card.parameters["consistency"], **changes}})


def test_the_shipped_card_says_how_to_compare() -> None:
    parameters = consistency_parameters(with_entry())
    assert set(parameters.thresholds) == {"convenience", "balanced", "strict"}
    assert parameters.calibration(parameters.undivided) > parameters.thresholds["strict"].value


def test_a_card_may_have_a_gate_without_an_enrolled_speaker() -> None:
    calibration = {"scale": 2.0, "offset": 1.0, "calibration_set": "none"}
    thresholds = {"balanced": {"value": -1.0, "operating_point": "none"}}
    entry = {"undivided": 0.5, "calibration": calibration, "thresholds": thresholds}
    gate = consistency_parameters(with_entry(alone=entry)).alone
    assert gate is not None and consistency_parameters(with_entry(alone=None)).alone is None
    assert (gate.score(-2.0, "balanced").llr, gate.score(None, "balanced").llr) == (-3.0, 2.0)
    assert not gate.score(-2.0, "balanced").passed and gate.score(None, "balanced").passed


def test_a_card_without_parameters_says_what_to_run() -> None:
    card = replace(with_entry(), parameters={})
    with pytest.raises(ModelError, match=r"no 'consistency' parameters; run 'python -m tools\.train\.consistency'"):
        consistency_parameters(card)


def test_a_card_of_an_earlier_version_says_what_to_run() -> None:
    entry = with_entry().parameters["consistency"]
    del entry["undivided"]
    with pytest.raises(ModelError, match=r"earlier version; run 'python -m tools\.train\.consistency'"):
        consistency_parameters(replace(with_entry(), parameters={"consistency": entry}))


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
