"""A backup of enrolments in one file, under a passphrase: to keep, and to move to another device.

Canonical CBOR with ``format``, ``version``, ``salt``, ``nonce``, ``sealed`` and ``checksum``, the SHA-256 of all the
rest, which tells damage from a wrong passphrase. ``sealed`` is AES-256-GCM, under a key that Argon2id makes of the
passphrase, over the users (template, matching templates, names of their credentials) and the privacy profiles; format,
version and salt are authenticated with it.

Not in it, by design: the device key, and so no credential; lock-out and PIN, which protect one device, and whose short
PIN a guessed passphrase would lay open.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from dataclasses import dataclass, replace
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from voiceid import cbor
from voiceid.credentials.profile import profile_from_table
from voiceid.credentials.rp_id import check_rp_id
from voiceid.enrolment.contents import VaultContents
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.names import name_key
from voiceid.enrolment.template import Template
from voiceid.errors import BackupError, VoiceIdError
from voiceid.file_kind import this_is
from voiceid.units.privacy import PrivacyProfile
from voiceid.wall_clock import unix_seconds

MAX_BACKUP = 1 << 25
"""Bytes: room for over a hundred users with many utterances."""
MIN_PASSPHRASE, MAX_PASSPHRASE = 12, 1024
"""Characters."""

MEMORY_KIB, ITERATIONS, LANES = 64 * 1024, 3, 4
"""Argon2id as RFC 9106 advises where memory is short; part of both versions."""

_FORMAT, _VERSION = "voiceid-backup", 2
"""Version 1: templates without baselines."""
_SALT, _NONCE = 16, 12
_HEAD = 128
"""Bytes, within which the format is named."""
_OUTER: dict[str, type] = {
    "format": str,
    "version": int,
    "salt": bytes,
    "nonce": bytes,
    "sealed": bytes,
    "checksum": bytes,
}
_INNER: dict[str, type] = {"created": int, "users": dict, "profiles": dict}
_USER: dict[str, type] = {"template": bytes, "matchings": dict, "credentials": dict}


@dataclass(frozen=True, slots=True)
class BackedUp:
    """One user: the template with all matching templates, and whom the credentials, which do not move, are for."""

    template: Template
    relying_parties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backup:
    """What is in a backup; ``created`` in Unix seconds."""

    created: int
    users: tuple[BackedUp, ...]
    profiles: dict[str, PrivacyProfile]

    @classmethod
    def of(cls, contents: VaultContents) -> Backup:
        """What of a vault goes into a backup made now."""
        users = tuple(
            BackedUp(user.template, tuple(credential.rp_id for credential in user.credentials))
            for user in contents.users
        )
        return cls(unix_seconds(), users, contents.profiles)

    def seal(self, passphrase: str) -> bytes:
        """The file under ``passphrase``.

        Raises:
            BackupError: a passphrase that is too short or too long, or more data than a backup takes.
        """
        check_passphrase(passphrase)
        salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
        head = {"format": _FORMAT, "version": _VERSION, "salt": salt}
        sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, self._payload(), cbor.encode(head))
        table = {**head, "nonce": nonce, "sealed": sealed}
        data = cbor.encode({**table, "checksum": _checksum(table)})
        if len(data) > MAX_BACKUP:
            raise BackupError(f"a backup of {len(data)} bytes is too large; at most {MAX_BACKUP}")
        return data

    def _payload(self) -> bytes:
        users = {
            f"{number}": {
                "template": user.template.to_bytes(),
                "matchings": {f"{n}": matching.to_bytes() for n, matching in enumerate(user.template.renewed)},
                "credentials": {f"{n}": rp_id for n, rp_id in enumerate(user.relying_parties)},
            }
            for number, user in enumerate(self.users)
        }
        profiles = {rp_id: profile.to_dict() for rp_id, profile in self.profiles.items()}
        return cbor.encode({"created": self.created, "users": users, "profiles": profiles})


def check_passphrase(passphrase: str) -> None:
    """Insist on a passphrase that takes some guessing.

    Raises:
        BackupError: too short, too long, or of few different characters.
    """
    if not MIN_PASSPHRASE <= len(passphrase) <= MAX_PASSPHRASE or len(set(passphrase)) < MIN_PASSPHRASE // 2:
        raise BackupError(
            f"a passphrase has {MIN_PASSPHRASE} to {MAX_PASSPHRASE} characters, and not always the same: whoever has "
            "the file can try as many as they like; take five words at random"
        )


def open_backup(data: bytes, passphrase: str) -> Backup:
    """What :meth:`Backup.seal` sealed.

    Raises:
        BackupError: no backup, damaged or cut short, from a newer version, or another passphrase.
    """
    table = _outer(data)
    head = {key: table[key] for key in ("format", "version", "salt")}
    try:
        cipher = AESGCM(_key(passphrase, table["salt"]))
        payload = cipher.decrypt(table["nonce"], table["sealed"], cbor.encode(head))
    except (InvalidTag, ValueError):
        raise BackupError("backup: not the passphrase of this file; nothing was read") from None
    try:
        return _parsed(payload)
    except BackupError:
        raise
    except VoiceIdError as error:
        raise BackupError(f"backup: {error}") from error


def check_backup(data: bytes) -> None:
    """Look at ``data`` as far as that goes without the passphrase.

    Raises:
        BackupError: no backup, damaged or cut short, or from a newer version.
    """
    _outer(data)


def _outer(data: bytes) -> dict[str, Any]:
    """The checked outer map; the format and version are looked at first."""
    if len(data) > MAX_BACKUP:
        raise BackupError(f"backup: {len(data)} bytes are too many; at most {MAX_BACKUP}")
    if _FORMAT.encode() not in data[:_HEAD]:
        raise BackupError(f"backup: this file is no backup by voiceid, or its beginning is lost{this_is(data)}")
    table = cbor.decode(data, where="backup: damaged", error=BackupError)
    if table.get("format") != _FORMAT:
        raise BackupError("backup: this file is no backup by voiceid")
    version = table.get("version")
    if type(version) is int and version > _VERSION:
        raise BackupError(
            f"backup: version {version} is newer than this voiceid knows ({_VERSION}); upgrade voiceid here first"
        )
    cbor.check_fields(table, _OUTER, where="backup", error=BackupError)
    checksum = table.pop("checksum")
    if version not in range(1, _VERSION + 1) or len(table["salt"]) != _SALT or len(table["nonce"]) != _NONCE:
        raise BackupError("backup: impossible version, salt or nonce")
    if checksum != _checksum(table):
        raise BackupError("backup: the file is damaged (its checksum differs); take another copy")
    return table


def _parsed(payload: bytes) -> Backup:
    table = cbor.decode(payload, where="backup contents", error=BackupError)
    cbor.check_fields(table, _INNER, where="backup contents", error=BackupError)
    users = tuple(_parsed_user(entry) for entry in table["users"].values())
    profiles = {
        check_rp_id(rp_id): profile_from_table(entry, where="backup contents", error=BackupError)
        for rp_id, entry in table["profiles"].items()
    }
    for what in ({name_key(user.template.name) for user in users}, {user.template.user_id for user in users}):
        if len(what) != len(users):
            raise BackupError("backup contents: one user twice")
    return Backup(table["created"], users, profiles)


def _parsed_user(table: Any) -> BackedUp:
    if not isinstance(table, dict):
        raise BackupError("backup contents: a user is a map")
    cbor.check_fields(table, _USER, where="backup contents", error=BackupError)
    template = Template.from_bytes(table["template"])
    matchings = tuple(Matching.from_bytes(data) for data in _values(table["matchings"], bytes))
    models = [template.model_sha256, *(matching.model_sha256 for matching in matchings)]
    strange = any(matching.enrolment_id != template.enrolment_id for matching in matchings)
    if strange or len(set(models)) != len(models):
        raise BackupError("backup contents: matching templates that do not belong to the enrolment")
    parties = tuple(check_rp_id(rp_id) for rp_id in _values(table["credentials"], str))
    return BackedUp(replace(template, renewed=matchings), parties)


def _values(table: dict[str, Any], kind: type) -> list[Any]:
    values = list(table.values())
    if not all(type(value) is kind for value in values):
        raise BackupError(f"backup contents: expected {kind.__name__}")
    return values


def _checksum(table: dict[str, Any]) -> bytes:
    return hashlib.sha256(cbor.encode(table)).digest()


def _key(passphrase: str, salt: bytes) -> bytes:
    normal = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    kdf = Argon2id(salt=salt, length=32, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB)
    return kdf.derive(normal)
