"""Judges that remember: the same answers, without asking the model again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.adversarial_helpers import write_identity
from tools.evaluation.memory import Memory, Remembered
from voiceid.errors import AudioError
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel

NOISE = (0.05 * np.random.default_rng(4).standard_normal(48_000)).astype(np.float32)


class Forgetful:
    """Has a card, but can embed nothing: what it answers was remembered."""

    def __init__(self, model: IdentityModel) -> None:
        self.card = model.card


def test_stretches_are_remembered_by_samples_and_ends(tmp_path: Path) -> None:
    model = IdentityModel(find_model(str(write_identity(tmp_path)), "identity"))
    memory = Memory(tmp_path / "memory")
    stretches = np.array([[0, 48_000], [8_000, 24_000]])
    first = Remembered(model, memory).embed_stretches(NOISE, stretches)
    np.testing.assert_array_equal(first, model.embed_stretches(NOISE, stretches))
    recalling = Remembered(Forgetful(model), memory)
    np.testing.assert_array_equal(recalling.embed_stretches(NOISE, stretches), first)
    for samples, others in ((NOISE, stretches + 1), (NOISE * 2, stretches)):
        with pytest.raises(AttributeError):
            recalling.embed_stretches(samples, others)


def test_failures_are_not_remembered(tmp_path: Path) -> None:
    model = IdentityModel(find_model(str(write_identity(tmp_path)), "identity"))
    remembered = Remembered(model, Memory(tmp_path / "memory"))
    for _ in range(2):
        with pytest.raises(AudioError):
            remembered.embed_stretches(NOISE, np.array([[0, 4_000]]))
