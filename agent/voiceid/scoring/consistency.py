"""The consistency judge: one voice, and the same one, throughout the utterance.

A *partially spoofed* command (VoiceID, section on partially spoofed commands) opens with the victim's wake word and
goes on in another voice. Scored as a whole it may still resemble the owner, so what lies before and after every
possible change of speaker is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from voiceid.errors import ModelError
from voiceid.models.card import Calibration, Card, Threshold
from voiceid.scoring.identity import Embedding
from voiceid.tables import Between, from_table

NO_BOUNDARY = 1.0
"""Raw score of an utterance too short to hold a change."""


@dataclass(frozen=True, slots=True)
class ConsistencyParameters:
    """The ``consistency`` entry of an identity card's parameters: it belongs to that card's embedding space.

    ``least_seconds`` of speech lie on each side of a boundary; boundaries are ``hop_seconds`` apart.
    """

    least_seconds: Annotated[float, Between(0.5, 5)]
    hop_seconds: Annotated[float, Between(0.1, 5)]
    calibration: Calibration
    thresholds: dict[str, Threshold]


def consistency_parameters(card: Card) -> ConsistencyParameters:
    """Read the consistency entry of an identity ``card``.

    Raises:
        ModelError: there is none, it is for the windows of earlier versions, or it is malformed.
    """
    entry: Any = card.parameters.get("consistency")
    fit = "run 'python -m tools.train.consistency' on it"
    if entry is None:
        raise ModelError(f"card {card.name!r} has no 'consistency' parameters; {fit}")
    if isinstance(entry, dict) and "window_seconds" in entry:
        raise ModelError(
            f"card {card.name!r}: its 'consistency' parameters are for windows of {entry['window_seconds']} s, which "
            f"this version no longer compares; {fit}"
        )
    return from_table(ConsistencyParameters, entry, where=f"card {card.name!r}: consistency", error=ModelError)


def consistency_score(before: Embedding, after: Embedding, reference: Embedding) -> float:
    """Raw consistency in [-3, 1]; ``before`` and ``after`` each boundary (b, d), ``reference`` (d,), of unit norm.

    The score of a boundary is how alike the two sides are less how differently they resemble the enrolled speaker, and
    the utterance scores as its worst boundary. A stranger who speaks throughout is consistent: the identity judge
    rejects him.
    """
    if not len(before):
        return NO_BOUNDARY
    alike = np.sum(before * after, axis=1)
    unlike_owner = np.abs(before @ reference - after @ reference)
    return float(np.min(alike - unlike_owner))
