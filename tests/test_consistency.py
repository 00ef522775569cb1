"""The consistency judge on embeddings whose change of speaker is known."""

from __future__ import annotations

import numpy as np
import pytest

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.scoring.consistency import NO_BOUNDARY, consistency_parameters, consistency_score, embed_windows
from voiceid.types import SAMPLE_RATE, Quality, Segment, Source, Utterance

QUALITY = Quality(0, 0, 0, 0, 0, 0, ())


def voice(seed: int, count: int, spread: float = 0.3) -> np.ndarray:
    centre = np.random.default_rng(seed).normal(size=64)
    noise = np.random.default_rng(seed + 1000).normal(size=(count, 64)) * spread
    vectors = centre / np.linalg.norm(centre) * 8 + noise
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


OWNER = voice(1, 1, 0.0)[0]


def test_one_voice_scores_high_and_a_change_low_wherever_it_is() -> None:
    assert consistency_score(voice(1, 6), OWNER) > 0.8
    for at in range(1, 6):
        spliced = np.concatenate([voice(1, at), voice(2, 6 - at)])
        assert consistency_score(spliced, OWNER) < 0.0, at
        assert consistency_score(spliced[::-1], OWNER) < 0.0, at


def test_a_stranger_throughout_is_consistent() -> None:
    assert consistency_score(voice(2, 6), OWNER) > 0.8


def test_too_short_for_a_change() -> None:
    assert consistency_score(voice(1, 1), OWNER) == NO_BOUNDARY


def test_windows_cover_the_net_speech_and_carry_utterance_times() -> None:
    samples = np.arange(5 * SAMPLE_RATE, dtype=np.float32)
    utterance = Utterance(samples, (Segment(0.5, 1.5), Segment(3.0, 4.7)), QUALITY, Source.FILE)
    seen: list[np.ndarray] = []

    def embed(window: np.ndarray) -> np.ndarray:
        seen.append(window)
        return np.ones(4, np.float32)

    windows = embed_windows(utterance, embed, window_seconds=1.0, hop_seconds=0.5)
    assert [round(len(w) / SAMPLE_RATE, 2) for w in seen] == [1.0, 1.0, 1.0, 1.2][: len(seen)]
    assert seen[0][0] == 0.5 * SAMPLE_RATE
    assert seen[-1][-1] == pytest.approx(4.7 * SAMPLE_RATE, abs=2)
    assert windows.segments[0] == Segment(0.5, 1.5)
    assert windows.segments[-1].end == pytest.approx(4.7, abs=0.01)
    assert windows.embeddings.shape == (len(seen), 4)


def test_a_card_without_parameters_says_what_to_run() -> None:
    fields = dict.fromkeys(Card.__dataclass_fields__, None)
    card = Card(**{**fields, "name": "x", "parameters": {}})
    with pytest.raises(ModelError, match=r"tools\.train\.consistency"):
        consistency_parameters(card)
