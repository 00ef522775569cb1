"""What was meant: a command of the grammar with a confidence, or that nothing was understood."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voiceid.models.card import Calibration
from voiceid.understanding.decoder import Decoder, Match


@dataclass(frozen=True, slots=True)
class Understanding:
    """A command with its slots, or not understood: then only ``confidence`` and ``guess`` say what came nearest.

    ``confidence`` in [0, 1] is the probability, calibrated on development speech with as many commands as other
    sentences, that a command of the grammar was said, times that of its intent against the next.
    """

    grammar: str
    understood: bool
    intent: str | None = None
    slots: dict[str, str] = field(default_factory=dict)
    text: str = ""
    confidence: float = 0.0
    guess: str = ""


def understand(
    posteriors: NDArray[np.float32], decoder: Decoder, calibration: Calibration, least_confidence: float
) -> Understanding:
    """The command in ``posteriors`` (T, labels) by ``decoder``; below ``least_confidence`` it is not understood."""
    match = decoder.decode(posteriors) if len(posteriors) else None
    grammar = decoder.graph.grammar
    if match is None:
        return Understanding(grammar, False)
    confidence = confidence_in(match, calibration)
    if confidence < least_confidence:
        return Understanding(grammar, False, confidence=confidence, guess=match.best.text)
    best = match.best
    return Understanding(grammar, True, best.intent, best.slots, best.text, confidence, best.text)


def confidence_in(match: Match, calibration: Calibration) -> float:
    """How sure ``match`` is, see :class:`Understanding`."""
    return _probability(calibration(match.fit)) * _probability(match.best.score - match.runner_up)


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-min(700.0, max(-700.0, log_odds))))
