"""What of a recording leaves the device under a privacy profile, as a vector for the same attack as on embeddings.

The attacker is semi-informed: they know the tokenizer and the profile, and train on what it emits of the known
speakers. Units become statistics (frequencies of units and of pairs of neighbours; with durations, mean log durations
too); for comparison, recordings become statistics of mel bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.studies.errors import StudyError
from tools.studies.profiles import PROFILES
from tools.studies.reidentification.embed import Embed
from tools.train.units_attacker import mel_statistics, unit_statistics
from voiceid.audio import prepare
from voiceid.audio.files import MAX_SECONDS
from voiceid.errors import AudioError
from voiceid.models.store import find_model
from voiceid.settings import ModelSettings
from voiceid.types import Waveform
from voiceid.units.packing import UnitSequence, pack, unpack
from voiceid.units.tokenizer import Tokenizer

EMBEDDING = "embedding"
"""The speaker embedding itself, for comparison."""
REPRESENTATIONS = ("mel", *PROFILES)


@dataclass(frozen=True, slots=True)
class Emitted:
    """A representation: ``mel`` of the audio, or units in one of ``PROFILES``, taken from the packed bytes that an
    envelope carries."""

    name: str
    card: str = ModelSettings().units

    def load(self) -> Embed:
        """Raises StudyError for an unknown representation."""
        if self.name == "mel":
            return lambda waveform: mel_statistics(prepare(waveform).samples).astype(np.float32)
        if self.name not in PROFILES:
            raise StudyError(f"representation {self.name!r}; use one of {', '.join(REPRESENTATIONS)}")
        profile = PROFILES[self.name]
        tokenizer = Tokenizer(find_model(self.card, "units"))

        def embed(waveform: Waveform) -> NDArray[np.float32]:
            if waveform.seconds > MAX_SECONDS:
                raise AudioError(f"{waveform.seconds:.0f} s long; the agent takes at most {MAX_SECONDS:.0f} s")
            units = tokenizer.encode(prepare(waveform).samples, profile.codebook)
            return sequence_statistics(unpack(pack(profile.apply(units.tolist())))).astype(np.float32)

        return embed

    def describe(self) -> dict[str, Any]:
        model = None if self.name == "mel" else find_model(self.card, "units").card.sha256
        return {"representation": self.name, "sha256": model}


def sequence_statistics(sequence: UnitSequence) -> NDArray[np.float64]:
    """Statistics of shared units, (k + k^2 + 1), or (2 k + k^2 + 1) with durations; the last: log of their number."""
    parts = [unit_statistics(sequence.units, sequence.codebook)]
    if sequence.durations is not None:
        counts = np.bincount(sequence.units, minlength=sequence.codebook)
        sums = np.bincount(sequence.units, np.log(sequence.durations), minlength=sequence.codebook)
        parts.append(sums / np.maximum(counts, 1))
    return np.concatenate((*parts, [np.log1p(len(sequence.units))]))
