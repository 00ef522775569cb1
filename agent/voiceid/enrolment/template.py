"""The voice template of one user, and the identity features that its enrolment froze."""

from __future__ import annotations

import dataclasses
import math
import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceid import cbor
from voiceid.enrolment.matching import (
    ID_BYTES,
    MATCHING_FIELDS,
    Embedding,
    Matching,
    check_baselines,
    check_model,
    check_vectors,
    matching_entries,
    mean_direction,
    read_record,
)
from voiceid.enrolment.names import check_name
from voiceid.errors import EnrolmentError
from voiceid.models.card import Card
from voiceid.scoring.owner import Baseline, first_of_each
from voiceid.wall_clock import unix_seconds

FROZEN_RANDOM_BYTES = 32

_FIELDS: dict[str, type] = {
    **MATCHING_FIELDS,
    "user_id": bytes,
    "name": str,
    "frozen_features": bytes,
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
    baselines: tuple[Baseline, ...] = ()
    """What detectors scored of its utterances, sorted by model; none in a template of before version 3."""
    renewed: tuple[Matching, ...] = ()
    """Matching templates for further models, oldest first; each rests in a record of its own."""

    def __post_init__(self) -> None:
        if check_name(self.name) != self.name:
            raise EnrolmentError("template: the user name is not in NFC")
        check_vectors(self.embedding, self.utterances)
        check_model(self.model_name, self.model_sha256)
        check_baselines(self.baselines)
        if len(self.user_id) != ID_BYTES or len(self.enrolment_id) != ID_BYTES:
            raise EnrolmentError(f"template: user and enrolment ids have {ID_BYTES} bytes")
        if len(self.frozen_features) <= FROZEN_RANDOM_BYTES:
            raise EnrolmentError("template: the frozen features are too short")
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
        baselines: tuple[Baseline, ...] = (),
    ) -> Template:
        """A new enrolment from utterance ``embeddings`` float32 (n, d), with its own id and frozen features.

        ``baselines`` are what detectors scored of the utterances. Pass the ``user_id`` of the former template when a
        user enrols again.

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
            baselines=baselines,
        )

    @property
    def utterance_count(self) -> int:
        return len(self.utterances)

    @property
    def models(self) -> tuple[str, ...]:
        """SHA-256 of every identity model that it can be matched by, that of the enrolment first."""
        return (self.model_sha256, *(matching.model_sha256 for matching in self.renewed))

    @property
    def known_baselines(self) -> tuple[Baseline, ...]:
        """What each detector scored of this enrolment, whatever identity model is asked; newest speech first."""
        records = (*(matching.baselines for matching in reversed(self.renewed)), self.baselines)
        return first_of_each(known for record in records for known in record)

    def for_model(self, sha256: str) -> Template | None:
        """This enrolment as matched by the identity model ``sha256``, None where it has not been renewed for it."""
        if sha256 == self.model_sha256:
            return self
        for matching in self.renewed:
            if matching.model_sha256 == sha256:
                return dataclasses.replace(
                    self,
                    embedding=matching.embedding,
                    utterances=matching.utterances,
                    model_name=matching.model_name,
                    model_sha256=matching.model_sha256,
                )
        return None

    def adapted(self, embeddings: Embedding, baselines: tuple[Baseline, ...] = ()) -> Template:
        """The same enrolment matched by other utterance ``embeddings`` (n, d) of the same model.

        ``baselines`` are those of the other utterances; the former ones go with the former utterances. Frozen features,
        enrolment id and with them all credentials stay.

        Raises:
            EnrolmentError: impossible embeddings.
        """
        vectors = np.asarray(embeddings, np.float32)
        if vectors.ndim == 2 and vectors.shape[1:] != self.embedding.shape:
            raise EnrolmentError(
                f"template: adaptation from dimension {len(self.embedding)} to {vectors.shape[1]}: another model's"
            )
        return dataclasses.replace(self, embedding=mean_direction(vectors), utterances=vectors, baselines=baselines)

    def to_bytes(self) -> bytes:
        """Canonical CBOR; vectors as little-endian float32."""
        own = {name: getattr(self, name) for name in ("user_id", "name", "frozen_features", "owner_uid")}
        return cbor.encode(matching_entries(self) | own)

    @classmethod
    def from_bytes(cls, data: bytes) -> Template:
        """The inverse of :meth:`to_bytes`.

        Raises:
            VaultError: malformed, or an impossible value.
        """
        return read_record(cls, data, _FIELDS, where="template record")


def _quantise(embedding: Embedding) -> bytes:
    scaled: NDArray[np.float32] = np.round(embedding * (127 / np.abs(embedding).max()))
    return scaled.astype(np.int8).tobytes()
