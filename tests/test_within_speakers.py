"""Within-class covariance normalisation: what varies within a voice counts for less."""

from __future__ import annotations

import numpy as np
import pytest

from tools.train.data.lessons import Pool
from tools.train.data.voices import Bank, Clip
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from tools.train.within_speakers import heard, levelling_map


def test_a_direction_that_varies_within_speakers_is_scaled_down() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 10)
    embeddings = rng.standard_normal((40, 6))[labels] + rng.standard_normal((400, 6)) * [3.0, 1, 1, 1, 1, 0.1]
    levelled = levelling_map(embeddings.astype(np.float32), labels, share=0.0)
    deviations = embeddings - np.array([embeddings[labels == label].mean(axis=0) for label in labels])
    np.testing.assert_allclose(
        np.cov((deviations @ levelled).T), np.eye(6) * np.mean(np.diag(np.cov(deviations.T))), atol=0.05
    )
    gentle = levelling_map(embeddings.astype(np.float32), labels)
    assert gentle[0, 0] < gentle[1, 1] < gentle[5, 5] < levelled[5, 5]


def test_speakers_heard_once_tell_nothing() -> None:
    with pytest.raises(SystemExit, match="no speaker was heard twice"):
        levelling_map(np.eye(3, dtype=np.float32), np.arange(3))


def test_speakers_of_single_recordings_are_left_out() -> None:
    clips = tuple(Clip(0, 16_000, name, "made", str(i)) for i, name in enumerate(("anna", "bert", "bert")))
    pool = Pool.of([Bank(np.ones(16_000, np.int16), clips)])
    with pytest.raises(SystemExit, match="no speaker has 4 clips; take further banks"):
        heard(DeepSpeaker(Shape((2, 2, 2, 2), 4)), pool, 3, np.random.default_rng(0))
