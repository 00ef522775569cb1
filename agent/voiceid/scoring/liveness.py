"""Liveness: does this come from a person in front of the microphone, or from a loudspeaker?"""

from __future__ import annotations

from voiceid.errors import ModelError
from voiceid.features.void import SIZE, void_features
from voiceid.models.card import Card
from voiceid.models.session import Session, as_float32
from voiceid.models.store import VerifiedModel
from voiceid.types import Samples

FRONTEND = "void-97"


class LivenessModel:
    """A replay detector on VOID-97: ``features`` (batch, 97) in, ``score`` (batch, 1) out, live high."""

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: the ONNX file does not fit its card, or the card names another front end or shape.
        """
        self.card: Card = model.card
        if self.card.frontend != FRONTEND or self.card.inputs.get("features", [])[-1:] != [SIZE]:
            raise ModelError(
                f"card {self.card.name!r} takes {self.card.frontend!r} {self.card.inputs}; "
                f"the liveness role offers {FRONTEND!r} as 'features' (batch, {SIZE})"
            )
        if list(self.card.outputs) != ["score"]:
            raise ModelError(f"card {self.card.name!r} gives {sorted(self.card.outputs)}; liveness needs 'score'")
        self._session = Session(model, threads=threads)

    def score(self, samples: Samples) -> float:
        """Raw score of ``samples`` (trimmed, levelled float32 (n,), 16 kHz), live high.

        Raises:
            ValueError: no samples.
        """
        if samples.size == 0:
            raise ValueError("no samples to judge; give at least one")
        return float(self._session.run(features=as_float32(void_features(samples)[None]))["score"][0, 0])
