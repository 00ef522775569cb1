"""Liveness: does this come from a person in front of the microphone, or from a loudspeaker?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.features.dynamics import band_dynamics
from voiceid.features.void import frame_power, void_features
from voiceid.models.card import Card
from voiceid.models.session import Session, as_float32
from voiceid.models.store import VerifiedModel
from voiceid.scoring.owner import OwnerParameters, owner_parameters
from voiceid.types import Samples


def void_and_dynamics(samples: Samples) -> NDArray[np.float32]:
    """VOID-97 and then the 128 band dynamics of ``samples`` (float32 (n,), 16 kHz): float32 (225,)."""
    frames = frame_power(samples)
    return np.concatenate((void_features(samples, frames), band_dynamics(samples, frames)))


FRONTENDS: dict[str, Callable[[Samples], NDArray[np.float32]]] = {
    "void-97": void_features,
    "void-97+dynamics-128": void_and_dynamics,
}
"""By the card's ``frontend``: waveform to one row of features."""


class LivenessModel:
    """A replay detector: ``features`` (batch, d) of the card's front end in, ``score`` (batch, 1) out, live high."""

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: the ONNX file does not fit its card, or the card names an unknown front end or other output.
        """
        self.card: Card = model.card
        self.owner: OwnerParameters | None = owner_parameters(self.card)
        if self.card.frontend not in FRONTENDS:
            raise ModelError(
                f"card {self.card.name!r} has frontend {self.card.frontend!r}; liveness offers {', '.join(FRONTENDS)}"
            )
        if list(self.card.inputs) != ["features"] or list(self.card.outputs) != ["score"]:
            raise ModelError(
                f"card {self.card.name!r} maps {sorted(self.card.inputs)} to {sorted(self.card.outputs)}; "
                "liveness needs 'features' to 'score'"
            )
        self._frontend = FRONTENDS[self.card.frontend]
        self._session = Session(model, threads=threads)
        size, offered = self.card.inputs["features"][-1], len(self._frontend(np.zeros(1, np.float32)))
        if size != offered:
            raise ModelError(f"card {self.card.name!r} takes {size} features, {self.card.frontend!r} gives {offered}")

    def score(self, samples: Samples) -> float:
        """Raw score of ``samples`` (trimmed, levelled float32 (n,), 16 kHz), live high.

        Raises:
            ValueError: no samples.
        """
        if samples.size == 0:
            raise ValueError("no samples to judge; give at least one")
        return float(self._session.run(features=as_float32(self._frontend(samples)[None]))["score"][0, 0])
