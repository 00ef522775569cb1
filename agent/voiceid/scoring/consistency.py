"""The consistency judge: one voice, and the same one, throughout the utterance.

A *partially spoofed* command (VoiceID, section on partially spoofed commands) opens with the victim's wake word and
goes on in another voice. Scored as a whole it may still resemble the owner, so what lies before and after every
possible change of speaker is compared. Of an utterance that the identity judge refuses it is asked instead whether the
enrolled speaker is heard in part of it (a *takeover*), or a stranger throughout.
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
from voiceid.tables import Between, Finite, from_table
from voiceid.types import Score

PairScores = Callable[[Embedding, Embedding], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Gate:
    """What raw scores mean. ``undivided`` is that of an utterance too short to hold a change: of the median genuine
    command.
    """

    undivided: Annotated[float, Finite()]
    calibration: Calibration
    thresholds: dict[str, Threshold]

    def score(self, raw: float | None, operating_point: str) -> Score:
        """The calibrated score, None standing for an utterance too short to hold a change."""
        raw = self.undivided if raw is None else raw
        return Score(raw, self.calibration(raw), self.thresholds[operating_point].value)


@dataclass(frozen=True, slots=True)
class ConsistencyParameters(Gate):
    """The ``consistency`` entry of an identity card's parameters: it belongs to that card's embedding space.

    ``least_seconds`` of speech lie on each side of a boundary; boundaries are ``hop_seconds`` apart. The gate itself is
    for scores with an enrolled speaker, ``alone`` for those without, ``takeover`` for those of who is refused.
    """

    least_seconds: Annotated[float, Between(0.5, 5)]
    hop_seconds: Annotated[float, Between(0.1, 5)]
    alone: Gate | None = None
    takeover: Gate | None = None


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


def consistency_score(voice: Voice, reference: Embedding | None, score: PairScores) -> float | None:
    """Raw consistency of what was heard as ``voice``; ``reference`` (d,) is the enrolled speaker, None without one.

    ``score`` compares embeddings row by row, as :meth:`IdentityModel.scores`. A boundary scores how alike its two sides
    are, plus how much the side less like the enrolled speaker resembles him, less half of that for the other side: in
    a splice one side is the owner and one is not. The utterance scores as its worst boundary; None if it is too short
    to hold a change. A stranger who speaks throughout is consistent: the identity judge rejects him. Without an
    enrolled speaker a boundary scores how alike its two sides are.
    """
    if not len(voice.before):
        return None
    alike = score(voice.before, voice.after)
    if reference is None:
        return float(np.min(alike))
    sides = _sides(voice, reference, score)
    return float(np.min(alike + sides.min(axis=0) - sides.max(axis=0) / 2))


def takeover_score(voice: Voice, reference: Embedding, score: PairScores) -> float | None:
    """Raw score of a stranger throughout, against the enrolled speaker in part, for who does not pass as ``reference``.

    Arguments are those of :func:`consistency_score`. A boundary scores how alike its two sides are, less how much the
    side more like the enrolled speaker resembles him; the utterance scores as its worst boundary, None without one.
    """
    if not len(voice.before):
        return None
    alike = score(voice.before, voice.after)
    return float(np.min(alike - _sides(voice, reference, score).max(axis=0)))


def _sides(voice: Voice, reference: Embedding, score: PairScores) -> NDArray[np.float64]:
    """How much what lies before and after each boundary resembles ``reference``: (2, b)."""
    owner = np.broadcast_to(reference, voice.before.shape)
    return np.stack([score(owner, voice.before), score(owner, voice.after)])
