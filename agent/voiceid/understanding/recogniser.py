"""The recogniser: from the units of one codebook to log-probabilities of letters, with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import EnvelopeError, ModelError
from voiceid.models.card import Calibration
from voiceid.models.session import Session
from voiceid.models.store import VerifiedModel, find_model
from voiceid.understanding.alphabet import LABELS
from voiceid.units.codebook import CodebookPin
from voiceid.units.packing import UnitSequence, merge_runs

Floats = NDArray[np.float32]
MOST_UNITS = 3000


class Recogniser:
    """The words role.

    The card's parameters are a :class:`CodebookPin`. Its calibration and thresholds say how well a grammar must explain
    an utterance, see :mod:`voiceid.understanding.understand`.
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: not a loadable model, or its card lacks a parameter or has other inputs and outputs.
        """
        self._session = Session(model, threads=threads)
        self.card = card = model.card
        self.pin = card.parameters_as(CodebookPin)
        takes, gives = card.inputs.get("units"), card.outputs.get("letters", [])
        fits = takes == [1, "time"] and gives[2:3] == [LABELS]
        if not fits or card.calibration is None:
            raise ModelError(f"card {card.name!r}: needs the input units, the output letters and a calibration")
        self.calibration: Calibration = card.calibration
        self.language: Path | None = next((model.folder / name for name in card.assets), None)
        """The language model for free text."""

    def posteriors(self, units: UnitSequence, codebook_hash: bytes) -> Floats:
        """Log-probabilities of the letters, float32 (T, LABELS), of units that a privacy profile let out.

        Durations and repetitions are not looked at.

        Raises:
            CodebookError: the units are of another codebook than the recogniser's.
            EnvelopeError: they are more than :data:`MOST_UNITS`.
        """
        self.pin.check(units.codebook, codebook_hash, model=self.card.name)
        if len(units.units) > MOST_UNITS:
            raise EnvelopeError(f"{len(units.units)} units; at most {MOST_UNITS}, half a minute, are understood")
        merged = np.array([merge_runs(units.units)[0]], np.int64)
        if not merged.size:
            return np.zeros((0, LABELS), np.float32)
        letters: Floats = self._session.run(units=merged)["letters"][0]
        return letters


def load_recogniser(reference: str = "words", *, threads: int = 1) -> Recogniser:
    """The recogniser whose card is named, or lies at path, ``reference``.

    Raises:
        ModelError: it is missing, damaged or no recogniser.
    """
    return Recogniser(find_model(reference, "words"), threads=threads)
