"""Vault records: AES-256-GCM, bound to user, format version, kind and place.

Layout: ``VIDR``, version (1 byte), kind (1), user id (16, random, says nothing), nonce (12), ciphertext and tag. All
of it and the record's place in the vault are authenticated: a record moved, renamed or relabelled by someone without
the device key does not open. Putting back an *older* record of the same place cannot be noticed
without hardware that counts.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import IntEnum, unique

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from voiceid.errors import VaultError

FORMAT_VERSION = 3
"""Of records and of the vault; see :mod:`voiceid.enrolment.migration` for the older ones."""

MAX_RECORD = 1 << 20
"""Bytes; a template of 100 utterances is a fifth of it."""

_MAGIC = b"VIDR"
_VAULT_MAGIC = b"VIDV"
_ID, _NONCE, _TAG = 16, 12, 16
_HEADER = len(_MAGIC) + 2 + _ID


@unique
class RecordKind(IntEnum):
    """What a record holds."""

    TEMPLATE = 1
    CREDENTIAL = 2
    COUNTER = 3
    PRIVACY = 4
    LOCKOUT = 5
    MATCHING = 6
    """A matching template for another model than the enrolment's."""


NO_USER = bytes(_ID)
"""User id of records that belong to the device."""


@dataclass(frozen=True, slots=True)
class Record:
    """An opened record."""

    version: int
    kind: RecordKind
    user_id: bytes
    payload: bytes


class VaultKeys:
    """What follows from the ``vault`` sub-key: the record cipher, file names and the key check."""

    __slots__ = ("_cipher", "_index", "check")

    def __init__(self, subkey: bytes) -> None:
        self._cipher = AESGCM(subkey)
        self._index = hmac.digest(subkey, b"voiceid-vault-index-v1", "sha256")
        self.check = hmac.digest(subkey, b"voiceid-vault-check-v1", "sha256")[:16]
        """Tells a wrong device key from a damaged vault."""

    def file_name(self, kind: RecordKind, key: bytes) -> str:
        """A name that says nothing to those without the device key."""
        return hmac.digest(self._index, bytes([kind]) + key, "sha256")[:16].hex()

    def seal(self, record: Record, place: str) -> bytes:
        """The bytes of ``record`` for the file at ``place``, a path relative to the vault.

        Raises:
            VaultError: larger than a record may be.
        """
        if len(record.payload) > MAX_RECORD - _HEADER - _NONCE - _TAG:
            raise VaultError(f"{place}: {len(record.payload)} bytes are too many for a record; enrol fewer utterances")
        header = _MAGIC + bytes([record.version, record.kind]) + record.user_id
        nonce = secrets.token_bytes(_NONCE)
        return header + nonce + self._cipher.encrypt(nonce, record.payload, header + place.encode())

    def unseal(self, data: bytes, place: str) -> Record:
        """Open the record read from ``place``.

        Raises:
            VaultError: damaged, moved, or from a newer version.
        """
        if len(data) < _HEADER + _NONCE + _TAG or not data.startswith(_MAGIC):
            raise VaultError(f"{place}: not a vault record, or cut short; {_repair(place)}")
        version, kind = data[4], data[5]
        if version > FORMAT_VERSION:
            raise newer_version(place, version)
        header, nonce, sealed = data[:_HEADER], data[_HEADER : _HEADER + _NONCE], data[_HEADER + _NONCE :]
        try:
            payload = self._cipher.decrypt(nonce, sealed, header + place.encode())
            return Record(version, RecordKind(kind), header[6:], payload)
        except (InvalidTag, ValueError):
            raise VaultError(f"{place}: the record is damaged or was moved here; {_repair(place)}") from None


def vault_header(version: int, check: bytes) -> bytes:
    """The content of the vault's format file: magic, version (2 bytes), key check (16), checksum (8)."""
    body = _VAULT_MAGIC + version.to_bytes(2, "big") + check
    return body + hashlib.sha256(body).digest()[:8]


def parse_vault_header(data: bytes, where: str) -> tuple[int, bytes]:
    """Version and key check of a format file.

    Raises:
        VaultError: damaged, or from a newer version.
    """
    body, checksum = data[:-8], data[-8:]
    if not data.startswith(_VAULT_MAGIC) or len(data) < 14 or hashlib.sha256(body).digest()[:8] != checksum:
        raise VaultError(f"{where}: damaged; restore this file from a backup")
    version = int.from_bytes(body[4:6], "big")
    if version > FORMAT_VERSION:
        raise newer_version(where, version)
    return version, body[6:]


def newer_version(where: str, version: int) -> VaultError:
    """The error for what a newer voiceid wrote."""
    return VaultError(
        f"{where}: format {version} is newer than this voiceid knows ({FORMAT_VERSION}); "
        "upgrade voiceid. Nothing was changed"
    )


def _repair(place: str) -> str:
    """What to do about a damaged record at ``place``."""
    name = place.rpartition("/")[2]
    if name.startswith(("credential-", "counter-")):
        return "'voiceid credentials list' tells whose it is and how to remove it"
    if name.startswith("matching-"):
        return "'voiceid users renew' of its user makes a new one"
    return "restore it from a backup, or delete the user and enrol again"
