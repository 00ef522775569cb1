"""The envelope: what leaves the device after an accepted utterance.

Canonical CBOR map with text keys::

    version     1
    rp          relying party id
    credential  credential id
    source      "microphone" or "file"
    time        Unix milliseconds, by the device's clock
    counter     signature counter
    purpose     what the user was asked to confirm                     (optional)
    units       {packed, codebook_hash, profile: {codebook, ...}}      (optional)
    assertion   {client_data, authenticator_data, signature}           WebAuthn

The WebAuthn challenge is SHA-256("voiceid-envelope-v1" | length-prefixed nonce | SHA-256(canonical CBOR of everything
but the assertion)): the assertion signs all of it, and any WebAuthn library can check it, given that challenge.
"""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fido2.webauthn import (
    AuthenticationResponse,
    AuthenticatorAssertionResponse,
    AuthenticatorAttachment,
    AuthenticatorData,
    CollectedClientData,
)

from voiceid import cbor
from voiceid.credentials.derivation import length_prefixed
from voiceid.credentials.profile import profile_from_table
from voiceid.credentials.rp_id import check_rp_id
from voiceid.errors import CredentialError, EnvelopeError
from voiceid.file_kind import FileKind, this_is
from voiceid.types import Source
from voiceid.units.packing import UnitSequence, pack, unpack
from voiceid.units.privacy import PrivacyProfile

VERSION = 1
MAX_ENVELOPE = 64 * 1024
"""Bytes; a minute of unmerged units is a tenth of it."""

MIN_NONCE, MAX_NONCE = 16, 1024
MAX_PURPOSE = 256
"""Characters."""

HASH_BYTES = 32
_DOMAIN = b"voiceid-envelope-v1"
_MAX_TIME = 2**53
_MAX_COUNTER = 2**32
_MAX_CREDENTIAL_ID = 1023
_MAX_CLIENT_DATA = 4096
_AUTHENTICATOR_DATA_BYTES = 37
_MAX_SIGNATURE = 72

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error)
"""What fido2's parsers raise on malformed input."""

_CONTENT_FIELDS: dict[str, type] = {
    "version": int,
    "rp": str,
    "credential": bytes,
    "source": str,
    "time": int,
    "counter": int,
}
_OPTIONAL_FIELDS: dict[str, type] = {"purpose": str, "units": dict}
_UNIT_FIELDS: dict[str, type] = {"packed": bytes, "codebook_hash": bytes, "profile": dict}
_ASSERTION_FIELDS: dict[str, type] = {"client_data": bytes, "authenticator_data": bytes, "signature": bytes}


@dataclass(frozen=True, slots=True)
class SpeechUnits:
    """The units of an utterance, ``packed`` by :mod:`voiceid.units.packing` after ``profile`` was applied.

    ``codebook_hash`` (32 bytes) pins the tokenizer and codebook that the ids refer to.

    Raises:
        EnvelopeError: an impossible value.
    """

    packed: bytes
    codebook_hash: bytes
    profile: PrivacyProfile

    def __post_init__(self) -> None:
        if len(self.codebook_hash) != HASH_BYTES:
            raise EnvelopeError(f"units: the codebook hash has {len(self.codebook_hash)} bytes, expected {HASH_BYTES}")

    @classmethod
    def share(cls, units: Sequence[int], profile: PrivacyProfile, codebook_hash: bytes) -> SpeechUnits:
        """What ``profile`` lets out of ``units``: one id each 10 ms, from its codebook, whose hash is given."""
        return cls(pack(profile.apply(units)), codebook_hash, profile)

    def sequence(self) -> UnitSequence:
        """The units.

        Raises:
            EnvelopeError: malformed, or more or other than the profile shares.
        """
        sequence = unpack(self.packed)
        shared = (sequence.codebook, sequence.merged, sequence.durations is not None)
        if shared != (self.profile.codebook, self.profile.merge_runs, self.profile.durations):
            raise EnvelopeError("units: packed otherwise than the privacy profile says")
        return sequence


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything in an envelope but the assertion; ``time`` in Unix milliseconds.

    Raises:
        EnvelopeError: an impossible value.
    """

    rp_id: str
    credential_id: bytes
    source: Source
    time: int
    counter: int
    purpose: str | None = None
    units: SpeechUnits | None = None

    def __post_init__(self) -> None:
        try:
            check_rp_id(self.rp_id)
        except CredentialError as error:
            raise EnvelopeError(f"envelope: {error}") from None
        if not 1 <= len(self.credential_id) <= _MAX_CREDENTIAL_ID:
            raise EnvelopeError(f"envelope: a credential id of {len(self.credential_id)} bytes")
        if not 0 <= self.time < _MAX_TIME:
            raise EnvelopeError(f"envelope: time {self.time} out of range")
        if not 1 <= self.counter < _MAX_COUNTER:
            raise EnvelopeError(f"envelope: counter {self.counter} out of range")
        if self.purpose is not None:
            check_purpose(self.purpose)

    def to_table(self) -> dict[str, Any]:
        """The map that is encoded."""
        table: dict[str, Any] = {
            "version": VERSION,
            "rp": self.rp_id,
            "credential": self.credential_id,
            "source": self.source.value,
            "time": self.time,
            "counter": self.counter,
        }
        if self.purpose is not None:
            table["purpose"] = self.purpose
        if self.units is not None:
            table["units"] = {
                "packed": self.units.packed,
                "codebook_hash": self.units.codebook_hash,
                "profile": self.units.profile.to_dict(),
            }
        return table

    def challenge(self, nonce: bytes) -> bytes:
        """The WebAuthn challenge (32 bytes) that binds these contents to the relying party's ``nonce``.

        Raises:
            EnvelopeError: the nonce has fewer than 16 or more than 1024 bytes.
        """
        if not MIN_NONCE <= len(nonce) <= MAX_NONCE:
            raise EnvelopeError(f"a nonce has {MIN_NONCE} to {MAX_NONCE} bytes, this one {len(nonce)}")
        digest = hashlib.sha256(cbor.encode(self.to_table())).digest()
        return hashlib.sha256(_DOMAIN + length_prefixed(nonce) + digest).digest()


@dataclass(frozen=True, slots=True)
class Assertion:
    """The WebAuthn assertion, as its three byte strings.

    Raises:
        EnvelopeError: one has an impossible length.
    """

    client_data: bytes
    authenticator_data: bytes
    signature: bytes

    def __post_init__(self) -> None:
        if not 1 <= len(self.client_data) <= _MAX_CLIENT_DATA:
            raise EnvelopeError(f"assertion: client data of {len(self.client_data)} bytes")
        if len(self.authenticator_data) != _AUTHENTICATOR_DATA_BYTES:
            raise EnvelopeError(
                f"assertion: authenticator data of {len(self.authenticator_data)} bytes, "
                f"expected {_AUTHENTICATOR_DATA_BYTES}: no attested credential, no extensions"
            )
        if not 1 <= len(self.signature) <= _MAX_SIGNATURE:
            raise EnvelopeError(f"assertion: signature of {len(self.signature)} bytes")


@dataclass(frozen=True, slots=True)
class Envelope:
    """Signed contents. Parsing says nothing about the signature: see :func:`voiceid.relying_party.verify`."""

    contents: Contents
    assertion: Assertion

    def to_bytes(self) -> bytes:
        """Canonical CBOR.

        Raises:
            EnvelopeError: larger than an envelope may be.
        """
        assertion = {name: getattr(self.assertion, name) for name in _ASSERTION_FIELDS}
        data = cbor.encode({**self.contents.to_table(), "assertion": assertion})
        if len(data) > MAX_ENVELOPE:
            raise EnvelopeError(
                f"envelope: {len(data)} bytes, at most {MAX_ENVELOPE} are allowed; shorten the utterance"
            )
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Parse strictly: ``from_bytes(data).to_bytes() == data`` for whatever is accepted.

        Raises:
            EnvelopeError: too large, not canonical CBOR, leftover bytes, unknown or missing keys, wrong types or
                values.
        """
        if len(data) > MAX_ENVELOPE:
            raise EnvelopeError(f"envelope: {len(data)} bytes, at most {MAX_ENVELOPE} are allowed")
        try:
            return cls._parsed(data)
        except EnvelopeError as error:
            raise EnvelopeError(f"{error}{this_is(data, FileKind.ENVELOPE)}") from None

    @classmethod
    def _parsed(cls, data: bytes) -> Envelope:
        table = cbor.decode(bytes(data), where="envelope", error=EnvelopeError)
        if table.get("version") != VERSION:
            raise EnvelopeError(f"envelope: version {table.get('version')!r} is not the known one ({VERSION})")
        required = {**_CONTENT_FIELDS, "assertion": dict}
        cbor.check_fields(table, required, _OPTIONAL_FIELDS, where="envelope", error=EnvelopeError)
        assertion = table["assertion"]
        cbor.check_fields(assertion, _ASSERTION_FIELDS, where="envelope: assertion", error=EnvelopeError)
        contents = Contents(
            rp_id=table["rp"],
            credential_id=table["credential"],
            source=_source(table["source"]),
            time=table["time"],
            counter=table["counter"],
            purpose=table.get("purpose"),
            units=_units(table["units"]) if "units" in table else None,
        )
        return cls(contents, Assertion(**assertion))

    def authentication_response(self) -> dict[str, Any]:
        """The assertion as WebAuthn's AuthenticationResponseJSON, for any WebAuthn library.

        Raises:
            EnvelopeError: client or authenticator data are malformed.
        """
        try:
            response = AuthenticatorAssertionResponse(
                client_data=CollectedClientData(self.assertion.client_data),
                authenticator_data=AuthenticatorData(self.assertion.authenticator_data),
                signature=self.assertion.signature,
            )
        except MALFORMED as error:
            raise EnvelopeError(f"envelope: malformed assertion ({error})") from None
        return dict(
            AuthenticationResponse(
                raw_id=self.contents.credential_id,
                response=response,
                authenticator_attachment=AuthenticatorAttachment.PLATFORM,
            )
        )


def check_purpose(purpose: str) -> str:
    """Return ``purpose``, the text that the user was asked to confirm, if it can be signed.

    Raises:
        EnvelopeError: empty, over 256 characters, or with control or invisible characters.
    """
    if not 1 <= len(purpose) <= MAX_PURPOSE:
        raise EnvelopeError(f"purpose: {len(purpose)} characters; use 1 to {MAX_PURPOSE}")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") for character in purpose):
        raise EnvelopeError("purpose: contains a control or invisible character")
    return purpose


def _source(value: str) -> Source:
    try:
        return Source(value)
    except ValueError:
        raise EnvelopeError(f"envelope: unknown source {value[:20]!r}") from None


def _units(table: dict[str, Any]) -> SpeechUnits:
    cbor.check_fields(table, _UNIT_FIELDS, where="envelope: units", error=EnvelopeError)
    return SpeechUnits(
        packed=table["packed"],
        codebook_hash=table["codebook_hash"],
        profile=profile_from_table(table["profile"], where="envelope: profile", error=EnvelopeError),
    )
