"""The consistency judge: one voice, and the same one, throughout the utterance.

A *partially spoofed* command (VoiceID, section on partially spoofed commands) opens with the victim's wake word and
goes on in another voice. Scored as a whole it may still resemble the owner, so what lies before and after every
possible change of speaker is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.models.card import Calibration, Card, Threshold
from voiceid.scoring.identity import Embedding
from voiceid.scoring.voice import Voice
from voiceid.tables import Between, from_table

PairScores = Callable[[Embedding, Embedding], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class ConsistencyParameters:
    """The ``consistency`` entry of an identity card's parameters: it belongs to that card's embedding space.

    ``least_seconds`` of speech lie on each side of a boundary; boundaries are ``hop_seconds`` apart. ``undivided`` is
    the raw score of an utterance too short to hold a change: that of the median genuine command.
    """

    least_seconds: Annotated[float, Between(0.5, 5)]
    hop_seconds: Annotated[float, Between(0.1, 5)]
    undivided: float
    calibration: Calibration
    thresholds: dict[str, Threshold]


def consistency_parameters(card: Card) -> ConsistencyParameters:
    """Read the consistency entry of an identity ``card``.

    Raises:
        ModelError: there is none, it is of an earlier version, or it is malformed.
    """
    entry: Any = card.parameters.get("consistency")
    fit = "run 'python -m tools.train.consistency' on it"
    if entry is None:
        raise ModelError(f"card {card.name!r} has no 'consistency' parameters; {fit}")
    if isinstance(entry, dict) and "undivided" not in entry:
        raise ModelError(f"card {card.name!r}: its 'consistency' parameters are of an earlier version; {fit}")
    return from_table(ConsistencyParameters, entry, where=f"card {card.name!r}: consistency", error=ModelError)


def consistency_score(voice: Voice, reference: Embedding, score: PairScores) -> float | None:
    """Raw consistency of what was heard as ``voice``, where ``reference`` (d,) is the enrolled speaker.

    ``score`` compares embeddings row by row, as :meth:`IdentityModel.scores`. A boundary scores how alike its two sides
    are, plus how much the side less like the enrolled speaker resembles him, less half of that for the other side: in
    a splice one side is the owner and one is not. The utterance scores as its worst boundary; None if it is too short
    to hold a change. A stranger who speaks throughout is consistent: the identity judge rejects him.
    """
    if not len(voice.before):
        return None
    owner = np.broadcast_to(reference, voice.before.shape)
    sides = np.stack([score(owner, voice.before), score(owner, voice.after)])
    alike = score(voice.before, voice.after)
    return float(np.min(alike + sides.min(axis=0) - sides.max(axis=0) / 2))
