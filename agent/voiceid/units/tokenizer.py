"""From samples to units at 100 Hz: a CPC encoder and k-means codebooks in one ONNX graph.

The graph takes a block of samples with the context that its front end needs, and the context network's state. Every
stream is cut into the same blocks from its start, however its samples arrive, so that streaming gives exactly the units
of one pass. Unit t describes samples 160 t to 160 t + 160; it is known once the samples up to ``lookahead_seconds``
after its start, and the rest of its block, have been heard. Nothing that comes later counts: what a graph follows
through the utterance, such as what the voice adds to every phone, is state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.models.session import Session
from voiceid.models.store import VerifiedModel
from voiceid.tables import Digest
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.codebook import CODEBOOKS, codebook_hash

HOP = 160
"""Samples a unit."""
RECEPTIVE = 465
"""Samples that the convolutions see of each frame, of which ``LEFT`` lie before it."""
LEFT = 153

Units = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class TokenizerParameters:
    """Parameters of the card."""

    block_frames: int
    """Frames a run of the graph."""
    lookahead_frames: int
    """Frames of context that come before the first unit's."""
    lookahead_seconds: float
    """How far the samples reach that a unit may depend on, from the start of its frame."""
    identity: Annotated[str, Digest()]
    """Digest of the weights."""


class Tokenizer:
    """The units role.

    Beside ``waveform`` the graph may take any state, such as an LSTM's ``hidden`` and ``cell``; each starts at zero and
    comes back as an output of its name and ``_out``. For the card's parameters see :class:`TokenizerParameters`.
    """

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: not a loadable model, or its card lacks a parameter or has other inputs and outputs.
        """
        self._session = Session(model, threads=threads)
        self.card = model.card
        self._parameters = self.card.parameters_as(TokenizerParameters)
        self._block = self._parameters.block_frames
        shapes = {name: tuple(shape) for name, shape in self.card.inputs.items()}
        fits = shapes.pop("waveform", None) == (1, RECEPTIVE + (self._block - 1) * HOP)
        fits = fits and all(isinstance(size, int) for shape in shapes.values() for size in shape)
        self._states = shapes
        outputs = {f"units_{k}" for k in CODEBOOKS} | {f"{name}_out" for name in self._states}
        if not fits or not outputs <= set(self.card.outputs):
            raise ModelError(f"card {self.card.name!r}: waveform input, units or states differ from its block_frames")

    @property
    def lookahead_seconds(self) -> float:
        """From the start of a unit's frame to the last sample it depends on."""
        return self._parameters.lookahead_seconds

    @property
    def block_seconds(self) -> float:
        """Units of a stream arrive in blocks of this length."""
        return self._block * HOP / SAMPLE_RATE

    def codebook_hash(self, codebook: int) -> bytes:
        """What pins units of ``codebook`` to this model, see :func:`voiceid.units.codebook.codebook_hash`."""
        return codebook_hash(self._parameters.identity, codebook)

    def encode(self, samples: Samples, codebook: int = 100) -> Units:
        """Units of one utterance: float32 (n,) at 16 kHz to int16 (n // 160,) in [0, codebook).

        Raises:
            ValueError: no such codebook, or ``samples`` is not one-dimensional.
        """
        return self.encode_all(samples, (codebook,))[codebook]

    def encode_all(self, samples: Samples, codebooks: Sequence[int] = CODEBOOKS) -> dict[int, Units]:
        """Units of one utterance from several codebooks at the cost of one, by codebook; see :meth:`encode`."""
        stream = self._stream(codebooks)
        units = np.concatenate((stream.push(samples), stream.finish()), axis=1)
        return dict(zip(codebooks, units, strict=True))

    def stream(self, codebook: int = 100) -> UnitStream:
        """A new stream of one utterance.

        Raises:
            ValueError: no such codebook.
        """
        return UnitStream(self._stream((codebook,)))

    def _stream(self, codebooks: Sequence[int]) -> _Stream:
        if unknown := sorted(set(codebooks) - set(CODEBOOKS)):
            raise ValueError(f"codebook {unknown[0]!r}; use one of {', '.join(map(str, CODEBOOKS))}")
        outputs = tuple(f"units_{k}" for k in codebooks)
        return _Stream(self._session, outputs, self._block, self._parameters.lookahead_frames, self._states)


class UnitStream:
    """One utterance that arrives in pieces of any size, as units of one codebook."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def push(self, samples: Samples) -> Units:
        """Take the next samples, float32 (n,); returns the units that are now certain, int16 (m,), often none."""
        units: Units = self._stream.push(samples)[0]
        return units

    def finish(self) -> Units:
        """End the utterance: the remaining units, so that ``heard samples // 160`` were given in all."""
        units: Units = self._stream.finish()[0]
        return units


class _Stream:
    """The stream behind :class:`UnitStream`, for several codebooks: units are (codebooks, m)."""

    def __init__(
        self,
        session: Session,
        outputs: tuple[str, ...],
        block: int,
        lookahead: int,
        states: dict[str, tuple[int, ...]],
    ) -> None:
        self._session, self._outputs, self._block = session, outputs, block
        self._state = {name: np.zeros(shape, np.float32) for name, shape in states.items()}
        self._pending = np.zeros(LEFT, np.float32)
        self._skip = lookahead
        self._heard = self._given = 0

    def push(self, samples: Samples) -> Units:
        if samples.ndim != 1:
            raise ValueError(f"samples of shape {samples.shape}; expected one dimension")
        self._heard += len(samples)
        return self._run(samples)

    def finish(self) -> Units:
        missing = self._heard // HOP - self._given
        if missing <= 0:
            return self._none()
        blocks = -(-(missing + self._skip) // self._block)
        needed = RECEPTIVE + (blocks * self._block - 1) * HOP
        return self._run(np.zeros(max(0, needed - len(self._pending)), np.float32))[:, :missing]

    def _run(self, samples: Samples) -> Units:
        pending = np.concatenate((self._pending, samples))
        length, step = RECEPTIVE + (self._block - 1) * HOP, self._block * HOP
        units = [self._none()]
        start = 0
        while start + length <= len(pending):
            outputs = self._session.run(waveform=pending[None, start : start + length], **self._state)
            self._state = {name: outputs[f"{name}_out"] for name in self._state}
            block = np.stack([outputs[name] for name in self._outputs]).astype(np.int16)
            units.append(block[:, self._skip :])
            self._skip = max(0, self._skip - self._block)
            start += step
        self._pending = pending[start:].astype(np.float32)
        result = np.concatenate(units, axis=1)
        self._given += result.shape[1]
        return result

    def _none(self) -> Units:
        return np.zeros((len(self._outputs), 0), np.int16)
