"""The voice template of one user, and the identity features that its enrolment froze."""

from __future__ import annotations

import dataclasses
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceid import cbor
from voiceid.enrolment.names import check_name
from voiceid.errors import EnrolmentError, VaultError
from voiceid.models.card import Card
from voiceid.wall_clock import unix_seconds

Embedding = NDArray[np.float32]

ID_BYTES = 16
FROZEN_RANDOM_BYTES = 32

_FIELDS: dict[str, type] = {
    "user_id": bytes,
    "name": str,
    "embedding": bytes,
    "utterances": bytes,
    "model_name": str,
    "model_sha256": str,
    "frozen_features": bytes,
    "enrolment_id": bytes,
    "created": int,
    "net_speech_ms": int,
    "owner_uid": int,
}


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What enrolment leaves of a voice. It rests encrypted and never leaves the process.

    ``embedding`` is what verification scores against and may be adapted. ``frozen_features`` (the quantised
    embedding of the enrolment and 32 random bytes) are what credentials derive from and stay until re-enrolment.

    Raises:
        EnrolmentError: an impossible value.
    """

    user_id: bytes
    """16 random bytes; the basis of the user handles, kept for the life of the user."""
    name: str
    embedding: Embedding
    """float32 (d,), unit norm."""
    utterances: Embedding
    """float32 (n, d): one unit-norm embedding for each enrolment utterance."""
    model_name: str
    """Name of the identity model's card."""
    model_sha256: str
    """SHA-256 of that model, hexadecimal: embeddings of another model are not comparable."""
    frozen_features: bytes
    enrolment_id: bytes
    """16 random bytes, new at each enrolment."""
    created: int
    """Unix seconds."""
    net_speech: float
    """Seconds of speech behind the template, in whole milliseconds."""
    owner_uid: int
    """Who may change or delete it, besides an admin."""

    def __post_init__(self) -> None:
        if check_name(self.name) != self.name:
            raise EnrolmentError("template: the user name is not in NFC")
        if self.embedding.ndim != 1 or self.utterances.ndim != 2 or len(self.utterances) == 0:
            raise EnrolmentError("template: expected an embedding (d,) and utterances (n, d) with n >= 1")
        if self.utterances.shape[1] != len(self.embedding):
            raise EnrolmentError("template: the embedding and its utterances differ in dimension")
        for vectors in (self.embedding[None], self.utterances):
            if vectors.dtype != np.float32 or not np.isfinite(vectors).all():
                raise EnrolmentError("template: embeddings must be finite float32")
            if np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 1e-3:
                raise EnrolmentError("template: embeddings must have unit norm")
        if len(self.user_id) != ID_BYTES or len(self.enrolment_id) != ID_BYTES:
            raise EnrolmentError(f"template: user and enrolment ids have {ID_BYTES} bytes")
        if len(self.frozen_features) != len(self.embedding) + FROZEN_RANDOM_BYTES:
            raise EnrolmentError("template: the frozen features have another length than the embedding asks for")
        if not self.model_name or not re.fullmatch(r"[0-9a-f]{64}", self.model_sha256):
            raise EnrolmentError("template: the identity card needs a name and a SHA-256")
        if self.created < 0 or self.owner_uid < 0 or not (math.isfinite(self.net_speech) and self.net_speech >= 0):
            raise EnrolmentError("template: time, net speech and owner uid cannot be negative")

    @classmethod
    def create(
        cls,
        name: str,
        embeddings: Embedding,
        *,
        model: Card,
        net_speech: float,
        owner_uid: int,
        user_id: bytes | None = None,
    ) -> Template:
        """A new enrolment from utterance ``embeddings`` float32 (n, d), with its own id and frozen features.

        Pass the ``user_id`` of the former template when a user enrols again.

        Raises:
            EnrolmentError: an impossible name or value.
        """
        vectors = np.asarray(embeddings, np.float32)
        embedding = mean_direction(vectors)
        return cls(
            user_id=user_id or secrets.token_bytes(ID_BYTES),
            name=check_name(name),
            embedding=embedding,
            utterances=vectors,
            model_name=model.name,
            model_sha256=model.sha256,
            frozen_features=_quantise(embedding) + secrets.token_bytes(FROZEN_RANDOM_BYTES),
            enrolment_id=secrets.token_bytes(ID_BYTES),
            created=unix_seconds(),
            net_speech=round(net_speech, 3),
            owner_uid=owner_uid,
        )

    @property
    def utterance_count(self) -> int:
        return len(self.utterances)

    def adapted(self, embeddings: Embedding, *, model: Card | None = None) -> Template:
        """The same enrolment matched by other utterance ``embeddings`` (n, d), as after adaptation or, with the new
        ``model``, after an upgrade to one of the same dimension.

        Frozen features, enrolment id and with them all credentials stay.

        Raises:
            EnrolmentError: impossible embeddings.
        """
        vectors = np.asarray(embeddings, np.float32)
        if vectors.ndim == 2 and vectors.shape[1:] != self.embedding.shape:
            raise EnrolmentError(
                f"template: adaptation from dimension {len(self.embedding)} to {vectors.shape[1]} needs a new enrolment"
            )
        return dataclasses.replace(
            self,
            embedding=mean_direction(vectors),
            utterances=vectors,
            model_name=model.name if model else self.model_name,
            model_sha256=model.sha256 if model else self.model_sha256,
        )

    def to_bytes(self) -> bytes:
        """Canonical CBOR; vectors as little-endian float32."""
        return cbor.encode(
            {
                "user_id": self.user_id,
                "name": self.name,
                "embedding": self.embedding.astype("<f4").tobytes(),
                "utterances": self.utterances.astype("<f4").tobytes(),
                "model_name": self.model_name,
                "model_sha256": self.model_sha256,
                "frozen_features": self.frozen_features,
                "enrolment_id": self.enrolment_id,
                "created": self.created,
                "net_speech_ms": round(self.net_speech * 1000),
                "owner_uid": self.owner_uid,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Template:
        """The inverse of :meth:`to_bytes`.

        Raises:
            VaultError: malformed, or an impossible value.
        """
        table: dict[str, Any] = cbor.decode(data, where="template record", error=VaultError)
        cbor.check_fields(table, _FIELDS, where="template record", error=VaultError)
        try:
            embedding = np.frombuffer(table.pop("embedding"), "<f4").astype(np.float32)
            utterances = np.frombuffer(table.pop("utterances"), "<f4").astype(np.float32)
            net_speech = table.pop("net_speech_ms") / 1000
            return cls(
                embedding=embedding,
                utterances=utterances.reshape(-1, max(1, len(embedding))),
                net_speech=net_speech,
                **table,
            )
        except (ValueError, EnrolmentError) as problem:
            raise VaultError(f"template record: {problem}") from problem


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


def _quantise(embedding: Embedding) -> bytes:
    scaled: NDArray[np.float32] = np.round(embedding * (127 / np.abs(embedding).max()))
    return scaled.astype(np.int8).tobytes()
