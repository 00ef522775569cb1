"""Spoofing detection: is this recorded from a person, or made by a machine?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.session import Session, as_float32
from voiceid.models.store import VerifiedModel
from voiceid.scoring.owner import OwnerParameters, owner_parameters
from voiceid.types import SAMPLE_RATE, Samples, Segment

DEFAULT_HOP_SECONDS = 2.0


class SpoofingModel:
    """A countermeasure of the AASIST family: windows of one fixed length in, logits (spoof, bona fide) out.

    The card's ``window_seconds`` gives that length. Of its ``parameters``, ``hop_seconds`` is the step between windows
    and ``score`` says what counts: ``logit-difference`` (bona fide minus spoof) or ``bonafide-logit`` (the rule of the
    official AASIST).
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: the ONNX file does not fit its card, or the card lacks a window or has unknown parameters.
        """
        self.card: Card = model.card
        self.owner: OwnerParameters | None = owner_parameters(self.card)
        if self.card.window_seconds is None:
            raise ModelError(f"card {self.card.name!r} has no window_seconds; a spoofing model needs a fixed window")
        self._window = round(self.card.window_seconds * SAMPLE_RATE)
        self._hop = round(float(self.card.parameters.get("hop_seconds", DEFAULT_HOP_SECONDS)) * SAMPLE_RATE)
        rule = self.card.parameters.get("score", "logit-difference")
        if rule not in ("logit-difference", "bonafide-logit") or not 0 < self._hop <= self._window:
            raise ModelError(f"card {self.card.name!r}: score is {rule!r}, hop {self._hop} samples; correct the card")
        self._subtract_spoof = rule == "logit-difference"
        self._session = Session(model, threads=threads)

    def windows(self, samples: Samples) -> tuple[tuple[Segment, float], ...]:
        """Raw score of each window of ``samples`` (levelled float32 (n,), 16 kHz), bona fide high.

        Audio shorter than the window is repeated to fill it and gives one score. Longer audio is covered by windows at
        the card's hop; the last one ends with the audio.

        Raises:
            ValueError: no samples.
        """
        if samples.size == 0:
            raise ValueError("no samples to judge; give at least one")
        starts = self._starts(len(samples))
        scores = [
            self._score_window(np.resize(samples[start : start + self._window], self._window)) for start in starts
        ]
        ends = [min(start + self._window, len(samples)) for start in starts]
        return tuple(
            (Segment(start / SAMPLE_RATE, end / SAMPLE_RATE), score)
            for start, end, score in zip(starts, ends, scores, strict=True)
        )

    def score(self, samples: Samples) -> float:
        """Raw score of the whole utterance, bona fide high: :meth:`aggregate` of its windows."""
        return self.aggregate(self.windows(samples))

    @staticmethod
    def aggregate(windows: Sequence[tuple[Segment, float]]) -> float:
        """The mean over the lower half of the ``windows``' raw scores.

        The lower half, because a partly artificial utterance must not pass on its genuine part; not the minimum,
        because that grows more severe with every second that the owner speaks.
        """
        scores = sorted(score for _, score in windows)
        return float(np.mean(scores[: (len(scores) + 1) // 2]))

    def _starts(self, count: int) -> list[int]:
        last = max(0, count - self._window)
        return [*range(0, last, self._hop), last]

    def _score_window(self, window: Samples) -> float:
        logits = self._session.run(waveform=as_float32(window[None]))["logits"][0]
        return float(logits[1] - logits[0]) if self._subtract_spoof else float(logits[1])
