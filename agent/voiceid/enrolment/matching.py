"""What verification scores a voice against, for one identity model; a template may have several, side by side.

Embeddings of two models are not comparable. When the identity model changes, the user speaks again and gets a matching
template for the new model beside the old one, so that going back to the old model needs nothing. The frozen features
of the enrolment, and with them all credentials, are untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceid import cbor
from voiceid.errors import EnrolmentError, VaultError
from voiceid.models.card import Card
from voiceid.scoring.owner import Baseline
from voiceid.tables import is_sha256
from voiceid.wall_clock import unix_seconds

Embedding = NDArray[np.float32]
T = TypeVar("T")

ID_BYTES = 16
MAX_BASELINE = 1e6
"""No detector scores higher, nor lower than its negative."""

MATCHING_FIELDS: dict[str, type] = {
    "embedding": bytes,
    "utterances": bytes,
    "model_name": str,
    "model_sha256": str,
    "enrolment_id": bytes,
    "created": int,
    "net_speech_ms": int,
}
BASELINES: dict[str, type] = {"baselines": dict}
"""Left out where there are none, as in records up to version 2."""
_BASELINE: dict[str, type] = {"mean_millionths": int, "utterances": int}


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """A matching template: float32 ``embedding`` (d,) and ``utterances`` (n, d), all of unit norm.

    Raises:
        EnrolmentError: an impossible value.
    """

    embedding: Embedding
    utterances: Embedding
    model_name: str
    model_sha256: str
    enrolment_id: bytes
    """Of the enrolment that it belongs to and ends with."""
    created: int
    """Unix seconds."""
    net_speech: float
    """Seconds of speech behind it, in whole milliseconds."""
    baselines: tuple[Baseline, ...] = ()
    """What detectors scored of its utterances, sorted by model."""

    def __post_init__(self) -> None:
        check_vectors(self.embedding, self.utterances)
        check_model(self.model_name, self.model_sha256)
        check_baselines(self.baselines)
        if len(self.enrolment_id) != ID_BYTES or self.created < 0 or not 0 <= self.net_speech < float("inf"):
            raise EnrolmentError("template: impossible enrolment id, time or net speech")

    @classmethod
    def create(
        cls,
        embeddings: Embedding,
        *,
        model: Card,
        enrolment_id: bytes,
        net_speech: float,
        baselines: tuple[Baseline, ...] = (),
    ) -> Matching:
        """From utterance ``embeddings`` float32 (n, d) by ``model``, and what detectors scored of the utterances.

        Raises:
            EnrolmentError: impossible embeddings.
        """
        vectors = np.asarray(embeddings, np.float32)
        return cls(
            embedding=mean_direction(vectors),
            utterances=vectors,
            model_name=model.name,
            model_sha256=model.sha256,
            enrolment_id=enrolment_id,
            created=unix_seconds(),
            net_speech=round(net_speech, 3),
            baselines=baselines,
        )

    def to_bytes(self) -> bytes:
        """Canonical CBOR; vectors as little-endian float32."""
        return cbor.encode(matching_entries(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Matching:
        """The inverse of :meth:`to_bytes`.

        Raises:
            VaultError: malformed, or an impossible value.
        """
        return read_record(cls, data, MATCHING_FIELDS, where="matching template")


class Matchable(Protocol):
    """What a voice is matched by: a :class:`Matching`, and a template itself."""

    @property
    def embedding(self) -> Embedding: ...
    @property
    def utterances(self) -> Embedding: ...
    @property
    def model_name(self) -> str: ...
    @property
    def model_sha256(self) -> str: ...
    @property
    def enrolment_id(self) -> bytes: ...
    @property
    def created(self) -> int: ...
    @property
    def net_speech(self) -> float: ...
    @property
    def baselines(self) -> tuple[Baseline, ...]: ...


def matching_entries(record: Matchable) -> dict[str, Any]:
    """The entries of a stored record that :data:`MATCHING_FIELDS` and :data:`BASELINES` name."""
    baselines = {
        known.model_sha256: {"mean_millionths": round(known.mean * 1_000_000), "utterances": known.utterances}
        for known in record.baselines
    }
    optional = {"baselines": baselines} if baselines else {}
    return optional | {
        "embedding": record.embedding.astype("<f4").tobytes(),
        "utterances": record.utterances.astype("<f4").tobytes(),
        "model_name": record.model_name,
        "model_sha256": record.model_sha256,
        "enrolment_id": record.enrolment_id,
        "created": record.created,
        "net_speech_ms": round(record.net_speech * 1000),
    }


def read_record(make: Callable[..., T], data: bytes, fields: dict[str, type], *, where: str) -> T:
    """What ``make`` makes of a stored record of ``fields``, among them :data:`MATCHING_FIELDS`.

    Raises:
        VaultError: malformed, or an impossible value.
    """
    table: dict[str, Any] = cbor.decode(data, where=where, error=VaultError)
    cbor.check_fields(table, fields, BASELINES, where=where, error=VaultError)
    try:
        embedding, utterances = read_vectors(table.pop("embedding"), table.pop("utterances"))
        net_speech = table.pop("net_speech_ms") / 1000
        baselines = _read_baselines(table.pop("baselines", {}), where)
        return make(embedding=embedding, utterances=utterances, net_speech=net_speech, baselines=baselines, **table)
    except (ValueError, EnrolmentError) as problem:
        raise VaultError(f"{where}: {problem}") from problem


def _read_baselines(table: dict[str, Any], where: str) -> tuple[Baseline, ...]:
    for entry in table.values():
        if not isinstance(entry, dict):
            raise VaultError(f"{where}: a baseline is a map")
        cbor.check_fields(entry, _BASELINE, where=where, error=VaultError)
    return tuple(
        Baseline(sha256, entry["mean_millionths"] / 1_000_000, entry["utterances"]) for sha256, entry in table.items()
    )


def read_vectors(embedding: bytes, utterances: bytes) -> tuple[Embedding, Embedding]:
    """An embedding (d,) and utterances (n, d) from little-endian float32.

    Raises:
        ValueError: the lengths do not fit.
    """
    one = np.frombuffer(embedding, "<f4").astype(np.float32)
    return one, np.frombuffer(utterances, "<f4").astype(np.float32).reshape(-1, max(1, len(one)))


def check_vectors(embedding: Embedding, utterances: Embedding) -> None:
    """Insist on an embedding (d,) and utterances (n, d), n >= 1, finite float32 of unit norm.

    Raises:
        EnrolmentError: they are not.
    """
    if embedding.ndim != 1 or utterances.ndim != 2 or len(utterances) == 0:
        raise EnrolmentError("template: expected an embedding (d,) and utterances (n, d) with n >= 1")
    if utterances.shape[1] != len(embedding):
        raise EnrolmentError("template: the embedding and its utterances differ in dimension")
    for vectors in (embedding[None], utterances):
        if vectors.dtype != np.float32 or not np.isfinite(vectors).all():
            raise EnrolmentError("template: embeddings must be finite float32")
        if np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 1e-3:
            raise EnrolmentError("template: embeddings must have unit norm")


def check_model(name: str, sha256: str) -> None:
    """Insist on the name of a card and a SHA-256 in hexadecimal.

    Raises:
        EnrolmentError: they are not.
    """
    if not name or not is_sha256(sha256):
        raise EnrolmentError("template: the identity card needs a name and a SHA-256")


def check_baselines(baselines: tuple[Baseline, ...]) -> None:
    """Insist on baselines of different models, sorted by these, each a finite mean of at least one utterance.

    Raises:
        EnrolmentError: they are not.
    """
    models = [known.model_sha256 for known in baselines]
    if models != sorted(set(models)) or not all(map(is_sha256, models)):
        raise EnrolmentError("template: baselines are of different models, by SHA-256, in order")
    for known in baselines:
        if not abs(known.mean) <= MAX_BASELINE or known.utterances < 1:
            raise EnrolmentError(f"template: impossible baseline, {known.mean} of {known.utterances} utterances")


def mean_direction(vectors: Embedding) -> Embedding:
    """The mean of embeddings (n, d), scaled to unit norm: float32 (d,).

    Raises:
        EnrolmentError: none, not finite, or they cancel out.
    """
    if vectors.ndim != 2 or len(vectors) == 0 or not np.isfinite(vectors).all():
        raise EnrolmentError("template: expected finite utterance embeddings (n, d) with n >= 1")
    mean = vectors.astype(np.float64).mean(axis=0)
    norm = float(np.linalg.norm(mean))
    if norm < 1e-6:
        raise EnrolmentError("template: the utterance embeddings cancel out; these are not one person's")
    return np.asarray(mean / norm, dtype=np.float32)
