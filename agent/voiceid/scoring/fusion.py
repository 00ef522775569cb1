"""The fusion: three calibrated scores become the VoiceID score, the probability of a genuine, live owner."""

from __future__ import annotations

import numpy as np

from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.session import Session
from voiceid.models.store import VerifiedModel

FRONTEND = "llr-3"
INPUT, OUTPUT = "llr", "probability"


class FusionModel:
    """An SVM with calibrated probability (VoiceID, decision fusion): ``llr`` (batch, 3) to ``probability`` (batch, 1).

    The columns are the identity, spoofing and liveness log-likelihood ratios. The graph clips them itself, so that no
    single score can outweigh the others without bound, and its probability never falls when one of them rises.
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: the ONNX file does not fit its card, or the card names another front end or shape.
        """
        self.card: Card = model.card
        if self.card.frontend != FRONTEND or self.card.inputs.get(INPUT, [])[-1:] != [3]:
            raise ModelError(
                f"card {self.card.name!r} takes {self.card.frontend!r} {self.card.inputs}; "
                f"the fusion role offers {FRONTEND!r} as {INPUT!r} (batch, 3)"
            )
        if list(self.card.outputs) != [OUTPUT]:
            raise ModelError(f"card {self.card.name!r} gives {sorted(self.card.outputs)}; fusion needs {OUTPUT!r}")
        self._session = Session(model, threads=threads)

    def probability(self, identity_llr: float, spoofing_llr: float, liveness_llr: float) -> float:
        """Probability in [0, 1] that the enrolled speaker, and nobody else and no machine, is speaking live.

        A score that is not a number gives 0: what cannot be judged is not accepted.
        """
        llr = np.array([[identity_llr, spoofing_llr, liveness_llr]], np.float32)
        if np.isnan(llr).any():
            return 0.0
        value = float(self._session.run(**{INPUT: llr})[OUTPUT][0, 0])
        return min(1.0, max(0.0, value))
