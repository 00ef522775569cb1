"""Loading one judge, remembered, and asking it about a file: what runs in every process of a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.audio import load_utterance
from tools.evaluation.memory import Memory, Remembered, cache_folder
from tools.evaluation.options import Options
from tools.evaluation.parallel import finite
from tools.train.data.corpus import Item
from voiceid.models.store import find_model
from voiceid.settings import ModelSettings

Judge = Literal["identity", "spoofing", "liveness"]


def load_judge(role: Judge, card: str | None, *, cache: bool = True) -> Any:
    """The judge on ``card`` (default: the shipped one), its results remembered if ``cache``.

    Raises:
        voiceid.errors.ModelError: missing, damaged, or a card of another role.
    """
    module = import_module(f"voiceid.scoring.{role}")
    judge = getattr(module, f"{role.capitalize()}Model")(find_model(card or getattr(ModelSettings(), role), role))
    return Remembered(judge, Memory(cache_folder() if cache else None))


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes the function from an index row to the judge's vector: an embedding, or a score of shape (1,)."""

    role: Judge
    card: str | None
    cache: bool = True

    @classmethod
    def of(cls, role: Judge, options: Options) -> Asking:
        return cls(role, options.card, options.cache)

    def __call__(self) -> Callable[[Item], NDArray[np.float32]]:
        judge = load_judge(self.role, self.card, cache=self.cache)

        def ask(item: Item) -> NDArray[np.float32]:
            utterance = load_utterance(item)
            if self.role == "identity":
                return finite(judge.embed(utterance.net_speech()))
            return finite([judge.score(utterance.samples)])

        return ask
