"""The identity judge: speaker embeddings from an ONNX network, and their normalised cosine score."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import AudioError, ModelError
from voiceid.features.mel import HOP, deep_speaker_fbank, log_mel
from voiceid.models.card import Card
from voiceid.models.session import Session, as_float32
from voiceid.models.store import VerifiedModel
from voiceid.tables import Between, Finite, from_table
from voiceid.types import SAMPLE_RATE, Samples

Embedding = NDArray[np.float32]
FRONT_ENDS: dict[str, Callable[[Samples], NDArray[np.float32]]] = {
    "log-mel": log_mel,
    "deep-speaker-fbank": deep_speaker_fbank,
}
COHORT_SUFFIX = ".cohort.npy"
STRETCHES = "stretches"
"""Second input of a network that embeds many stretches in one pass; see :meth:`IdentityModel.embed_stretches`."""
POOLED = 16 * HOP
"""Samples a frame of what such a network pools: 0.16 s, to which stretches are rounded."""
COHORT_TOP = 100
"""Cohort scores that count on each side, unless the card's ``cohort_top`` says otherwise."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What :meth:`IdentityModel.likeness` says: ``share`` of what it is above the ``usual``, or below, counts.

    It counts as ``least`` where it is below that, as ``most`` where above.
    """

    share: Annotated[float, Between(0, 1)]
    usual: Annotated[float, Finite()]
    least: Annotated[float, Finite()]
    most: Annotated[float, Finite()]


@dataclass(frozen=True, slots=True)
class Duration:
    """Raw scores rise by ``slope`` with the natural logarithm of the speech that is tried, in seconds.

    They are taken as those of ``usual`` seconds; less than ``least`` counts as that, more than ``most`` as that.
    """

    slope: Annotated[float, Between(0, 100)]
    usual: Annotated[float, Between(0.1, 100)]
    least: Annotated[float, Between(0.1, 100)]
    most: Annotated[float, Between(0.1, 100)]

    def surplus(self, seconds: float) -> float:
        """How much more a raw score is for ``seconds`` of speech than for the usual."""
        return self.slope * math.log(min(max(seconds, self.least), self.most) / self.usual)


S = TypeVar("S", Likeness, Duration)


def direction(enrolled: Embedding) -> Embedding:
    """The mean of ``enrolled``, unit vectors (n, d), again of unit norm; of one vector (d,) itself."""
    mean: Embedding = _unit(np.atleast_2d(enrolled).mean(axis=0))
    return mean


class IdentityModel:
    """A speaker network, its front end and, where its card names one, its score-normalisation cohort."""

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: unknown front end, other inputs and outputs than an identity model's, or a damaged cohort.
        """
        self.card = model.card
        if self.card.frontend not in FRONT_ENDS:
            raise ModelError(
                f"card {self.card.name!r}: front end {self.card.frontend!r}; identity knows {', '.join(FRONT_ENDS)}"
            )
        inputs = [name for name in self.card.inputs if name != STRETCHES]
        if len(inputs) != 1 or len(self.card.outputs) != 1:
            raise ModelError(
                f"card {self.card.name!r}: an identity model has one input, {STRETCHES!r} where it embeds many "
                f"in one pass, and one output; this has {', '.join([*self.card.inputs, *self.card.outputs])}"
            )
        self._session = Session(model, threads=threads)
        self._front_end = FRONT_ENDS[self.card.frontend]
        (self._input,), (self._output,) = inputs, self.card.outputs
        self.one_pass = STRETCHES in self.card.inputs
        """Whether many stretches cost no more than the whole."""
        named = any(name.endswith(COHORT_SUFFIX) for name in self.card.assets)
        self._cohort = _read_cohort(model, self.card.outputs[self._output][-1]) if named else None
        self._likeness = _surplus_of(self.card, "likeness", Likeness)
        self._duration = _surplus_of(self.card, "duration", Duration)
        self._top = self.card.parameters.get("cohort_top", COHORT_TOP)
        if not isinstance(self._top, int) or self._top < 2:
            raise ModelError(f"card {self.card.name!r}: cohort_top is {self._top!r}; it has to be a number from 2 on")

    def embed(self, samples: Samples) -> Embedding:
        """Embed levelled net speech, float32 (n,) at 16 kHz of any length from 0.5 s on: float32 (d,), unit norm.

        Raises:
            AudioError: shorter than the card's ``min_seconds``.
        """
        whole: Embedding = self.embed_stretches(samples, np.array([[0, len(samples)]]))[0]
        return whole

    def embed_stretches(self, samples: Samples, stretches: NDArray[np.int64]) -> Embedding:
        """Embed ``stretches`` (s, 2) of levelled net speech, each from and up to a sample: float32 (s, d), unit norm.

        A network with the input ``stretches`` does so in one pass, rounding to 0.16 s; another runs on each.

        Raises:
            AudioError: one is shorter than the card's ``min_seconds``.
        """
        shortest = int(np.min(stretches[:, 1] - stretches[:, 0]))
        if shortest < self.card.min_seconds * SAMPLE_RATE:
            raise AudioError(
                f"{shortest / SAMPLE_RATE:.2f} s of speech; model {self.card.name!r} needs {self.card.min_seconds} s"
            )
        if self.one_pass:
            features = self._features(samples)
            last = -(-features.shape[1] * HOP // POOLED)
            frames = np.minimum((stretches + POOLED // 2) // POOLED, last)
            frames[stretches[:, 1] == len(samples), 1] = last
            inputs = {self._input: features, STRETCHES: frames}
            embeddings = self._session.run(**inputs)[self._output]
        else:
            embeddings = np.concatenate(
                [
                    self._session.run(**{self._input: self._features(samples[start:end])})[self._output]
                    for start, end in stretches
                ]
            )
        return _unit(embeddings)

    def _features(self, samples: Samples) -> NDArray[np.float32]:
        """Front end's output as the network takes it: (1, frames, bands, 1)."""
        return as_float32(self._front_end(samples)[None, :, :, None])

    def score(self, enrolled: Embedding, embedding: Embedding, seconds: float) -> float:
        """Raw score of ``embedding`` (d,) against the speaker of ``enrolled``: see :meth:`against`."""
        return self.against(enrolled)(embedding, seconds)

    def against(self, enrolled: Embedding) -> Callable[[Embedding, float], float]:
        """From an embedding (d,) and the seconds of speech it is of to its raw score against the speaker of
        ``enrolled``, (n, d) or (d,), of unit norm.

        That is its score against the mean of the enrolled (:meth:`scores`), less what is expected more, and plus what
        is expected less: where the card has a ``likeness``, of a speaker whose enrolled utterances are more alike than
        others' are, a threshold of the speaker's own; where it has a ``duration``, of more speech than usual, a
        threshold by length.
        """
        reference, surplus = direction(enrolled), self._surplus(np.atleast_2d(enrolled))

        def score(embedding: Embedding, seconds: float) -> float:
            longer = 0.0 if self._duration is None else self._duration.surplus(seconds)
            return float(self.scores(reference[None], embedding[None])[0]) - surplus - longer

        return score

    def _surplus(self, utterances: Embedding) -> float:
        """The share that counts of how much more ``utterances`` (n, d) are alike than is usual."""
        likeness = self._likeness
        if likeness is None or len(utterances) < 2:
            return 0.0
        found = min(max(self.likeness(utterances), likeness.least), likeness.most)
        return likeness.share * (found - likeness.usual)

    def likeness(self, utterances: Embedding) -> float:
        """Mean raw score of each of a speaker's ``utterances`` (n, d), n >= 2, against the mean of the others."""
        others = _unit(utterances.sum(axis=0) - utterances)
        return float(self.scores(others, utterances).mean())

    def scores(self, references: Embedding, embeddings: Embedding) -> NDArray[np.float64]:
        """Raw scores (n,) of ``embeddings`` (n, d), each against its row of ``references`` (n, d), all of unit norm.

        The cosine; with a cohort, normalised by it on both sides (adaptive S-norm, Matejka et al., 2017): the mean of
        (cosine - mean) / deviation over the cohort members most like the reference and most like the embedding.
        """
        cosines: NDArray[np.float64] = np.sum(references * embeddings, axis=1, dtype=np.float64)
        if self._cohort is None:
            return cosines
        centres = [self._cohort_statistics(side, self._cohort) for side in (references, embeddings)]
        normalised: NDArray[np.float64] = np.mean([(cosines - mean) / deviation for mean, deviation in centres], axis=0)
        return normalised

    def _cohort_statistics(
        self, sides: Embedding, cohort: Embedding
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and deviation (n,) of the scores of ``sides`` (n, d) against the most similar members of ``cohort``."""
        scores = (sides @ cohort.T).astype(np.float64)
        top = np.partition(scores, -self._top, axis=1)[:, -self._top :] if len(cohort) > self._top else scores
        return top.mean(axis=1), np.maximum(top.std(axis=1), 1e-3)


def _surplus_of(card: Card, name: str, kind: type[S]) -> S | None:
    """The card's parameter ``name``, if it has one."""
    if name not in card.parameters:
        return None
    where = f"card {card.name!r}: {name}"
    found = from_table(kind, card.parameters[name], where=where, error=ModelError)
    if found.least > found.most:
        raise ModelError(f"{where}: least is {found.least:g}, above most, {found.most:g}")
    return found


def _read_cohort(model: VerifiedModel, dimension: Any) -> Embedding:
    """The cohort asset: float16 or float32 (N, d), returned as float32 of unit norm."""
    path = model.asset(COHORT_SUFFIX)
    try:
        cohort = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not a readable cohort ({error}); reinstall the model") from error
    if cohort.ndim != 2 or cohort.dtype.kind != "f" or cohort.shape[1] != dimension or len(cohort) < 2:
        raise ModelError(
            f"{path}: cohort of shape {cohort.shape} and type {cohort.dtype}; expected floats (N, {dimension})"
        )
    return _unit(cohort.astype(np.float32))


def _unit(vectors: Embedding) -> Embedding:
    result: Embedding = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32(1e-9))
    return result
