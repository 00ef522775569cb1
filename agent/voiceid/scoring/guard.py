"""The guard: how far the identity score falls when the utterance is copied by a cheap transform.

Noise that was computed to deceive a speaker network loses much of its effect in a copy, while speech keeps its speaker
(Wu et al., arXiv 2107.00309, with a vocoder for the transform). Only a fall counts: an utterance whose score rises was
not made to be accepted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.session import Session, as_float32
from voiceid.models.store import VerifiedModel
from voiceid.scoring.identity import IdentityModel
from voiceid.scoring.voice import Voice, hear
from voiceid.types import Utterance

FRONTEND = "waveform"
INPUT, OUTPUT = "samples", "copy"
IDENTITY = "identity_sha256"
"""Parameter of the card: the identity model whose scores its calibration and thresholds are about."""


class GuardModel:
    """A transform of ``samples`` (1, n) at the policy's level to their ``copy`` (1, n), for one identity model."""

    def __init__(self, model: VerifiedModel, identity: Card, *, threads: int = 1) -> None:
        """Load ``model``, to be used beside ``identity``.

        Raises:
            ModelError: another front end, other inputs and outputs, or made for another identity model.
        """
        self.card = model.card
        if (self.card.frontend, list(self.card.inputs), list(self.card.outputs)) != (FRONTEND, [INPUT], [OUTPUT]):
            raise ModelError(
                f"card {self.card.name!r} makes {sorted(self.card.outputs)} of {self.card.frontend!r} "
                f"{sorted(self.card.inputs)}; a guard makes {OUTPUT!r} of {FRONTEND!r} {INPUT!r}"
            )
        if (made_for := self.card.parameters.get(IDENTITY)) != identity.sha256:
            raise ModelError(
                f"card {self.card.name!r} was made for identity model {str(made_for)[:12]}, but {identity.name!r} "
                f"({identity.sha256[:12]}) is in use: make it anew ('python -m tools.studies.adversarial guard --help')"
                ", or leave guard out of [models]"
            )
        self._session = Session(model, threads=threads)

    def copy(self, utterance: Utterance) -> Utterance:
        """``utterance`` as the transform gives it back, its speech where it was.

        Raises:
            ModelError: a copy of another length.
        """
        samples = self._session.run(**{INPUT: as_float32(utterance.samples[None])})[OUTPUT][0]
        if samples.shape != utterance.samples.shape:
            raise ModelError(
                f"card {self.card.name!r} copied {len(utterance.samples)} samples to an array of shape {samples.shape}"
            )
        return replace(utterance, samples=samples)

    def hear(self, identity: IdentityModel, utterance: Utterance) -> Voice:
        """What ``identity`` hears in the copy of ``utterance``: the whole and its windows, no boundaries."""
        copy = self.copy(utterance)
        return hear(identity, copy, least_seconds=copy.seconds, hop_seconds=copy.seconds)


def falls(reference: NDArray[np.float32], voice: Voice, copy: Voice) -> tuple[float, list[float]]:
    """Raw guard scores: minus the fall of the cosine with ``reference`` (d,), of the whole and of each window."""
    whole, windows = (copy.whole - voice.whole) @ reference, (copy.windows - voice.windows) @ reference
    return float(whole), windows.astype(float).tolist()
