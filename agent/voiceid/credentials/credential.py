"""What the vault remembers of a credential: everything but its private key, which is derived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voiceid import cbor
from voiceid.errors import VaultError

_FIELDS: dict[str, type] = {
    "credential_id": bytes,
    "rp_id": str,
    "user_handle": bytes,
    "enrolment_id": bytes,
    "public_key": bytes,
    "created": int,
}


@dataclass(frozen=True, slots=True)
class Credential:
    """A registered credential. ``public_key`` is COSE in CBOR, ``created`` Unix seconds."""

    credential_id: bytes
    rp_id: str
    user_handle: bytes
    enrolment_id: bytes
    public_key: bytes
    created: int

    def facts(self, user: str) -> dict[str, Any]:
        """What may be shown of it, a credential of ``user``: in every answer the same."""
        return {
            "user": user,
            "relying_party": self.rp_id,
            "credential_id": self.credential_id,
            "user_handle": self.user_handle,
            "created": self.created,
        }

    def to_bytes(self) -> bytes:
        """Canonical CBOR."""
        return cbor.encode({name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def from_bytes(cls, data: bytes) -> Credential:
        """The inverse of :meth:`to_bytes`.

        Raises:
            VaultError: malformed.
        """
        table: dict[str, Any] = cbor.decode(data, where="credential record", error=VaultError)
        cbor.check_fields(table, _FIELDS, where="credential record", error=VaultError)
        return cls(**table)
