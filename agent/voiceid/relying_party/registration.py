"""Checking the answer to a registration, and what a service keeps of it."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256, CoseKey
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import Aaguid, AuthenticatorData, CollectedClientData, RegistrationResponse

from voiceid.credentials.envelope import MALFORMED, MIN_NONCE
from voiceid.credentials.rp_id import check_rp_id, origin_of
from voiceid.errors import CredentialError, EnvelopeError
from voiceid.file_kind import FileKind, this_is

MAX_RESPONSE = 16 * 1024
"""Bytes of JSON."""

FLAG = AuthenticatorData.FLAG
_JSON_FIELDS: dict[str, type] = {
    "rp_id": str,
    "credential_id": str,
    "public_key": str,
    "counter": int,
    "aaguid": str,
}


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered credential as a service stores it. ``public_key`` is COSE in CBOR, always ES256.

    Raises:
        EnvelopeError: an impossible value.
    """

    rp_id: str
    credential_id: bytes
    public_key: bytes
    counter: int
    """The last signature counter seen."""
    aaguid: str

    def __post_init__(self) -> None:
        check_id(self.rp_id)
        if not self.credential_id or not 0 <= self.counter < 2**32:
            raise EnvelopeError("registration: the credential id is empty or the counter out of range")
        es256_key(self.public_key)

    def advanced(self, counter: int) -> Registration:
        """The registration to store after an envelope with ``counter`` was verified; never falls back."""
        return dataclasses.replace(self, counter=max(self.counter, counter))

    def to_json(self) -> dict[str, str | int]:
        """A JSON-able dict, byte strings in base64url."""
        table: dict[str, str | int] = dataclasses.asdict(self)
        return {
            **table,
            "credential_id": websafe_encode(self.credential_id),
            "public_key": websafe_encode(self.public_key),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Registration:
        """The inverse of :meth:`to_json`.

        Raises:
            EnvelopeError: keys missing or unknown, or wrong types or values.
        """
        if not isinstance(table, Mapping) or set(table) != set(_JSON_FIELDS):
            raise EnvelopeError(
                f"registration: expected the keys {', '.join(_JSON_FIELDS)}, as Registration.to_json gives them"
                f"{_instead(table, FileKind.KEPT_REGISTRATION)}"
            )
        if wrong := [name for name, kind in _JSON_FIELDS.items() if type(table[name]) is not kind]:
            raise EnvelopeError(f"registration: {wrong[0]} must be {_JSON_FIELDS[wrong[0]].__name__}")
        try:
            credential_id, public_key = websafe_decode(table["credential_id"]), websafe_decode(table["public_key"])
        except ValueError:
            raise EnvelopeError("registration: credential_id or public_key is not base64url") from None
        return cls(table["rp_id"], credential_id, public_key, table["counter"], table["aaguid"])


def verify_registration(
    response: str | Mapping[str, Any], *, expected_challenge: bytes, expected_rp_id: str
) -> Registration:
    """Check a RegistrationResponseJSON and return what to store.

    There is no attestation: that the key is this user's is for the service to establish, as by a session
    that is logged in.

    Raises:
        EnvelopeError: malformed, an expected challenge of less than 16 bytes, another challenge, origin or relying
            party, user not present or not verified, another attestation format or key type.
    """
    check_id(expected_rp_id)
    if len(expected_challenge) < MIN_NONCE:
        raise EnvelopeError(
            f"registration: a challenge has at least {MIN_NONCE} bytes, the expected one {len(expected_challenge)}"
        )
    parsed = _parse(response)
    check_client_data(
        parsed.response.client_data,
        expected_type=CollectedClientData.TYPE.CREATE,
        expected_challenge=expected_challenge,
        expected_rp_id=expected_rp_id,
    )
    attestation = parsed.response.attestation_object
    if attestation.fmt != "none" or attestation.att_stmt:
        raise EnvelopeError(f"registration: attestation format {attestation.fmt!r}, expected 'none'")
    data = attestation.auth_data
    check_flags(data, FLAG.UP | FLAG.UV | FLAG.AT, expected_rp_id)
    attested = data.credential_data
    if attested is None or attested.credential_id != parsed.raw_id:
        raise EnvelopeError("registration: the attested credential id differs from that of the response")
    return Registration(
        rp_id=expected_rp_id,
        credential_id=attested.credential_id,
        public_key=cbor.encode(attested.public_key),
        counter=data.counter,
        aaguid=str(Aaguid(attested.aaguid)),
    )


def check_id(rp_id: str) -> None:
    """Refuse what is no relying party id.

    Raises:
        EnvelopeError: not a domain in lower case.
    """
    try:
        check_rp_id(rp_id)
    except CredentialError as error:
        raise EnvelopeError(str(error)) from None


def check_client_data(
    client_data: CollectedClientData,
    *,
    expected_type: CollectedClientData.TYPE,
    expected_challenge: bytes,
    expected_rp_id: str,
) -> None:
    """Check type, challenge and origin (WebAuthn sections 7.1 and 7.2).

    Raises:
        EnvelopeError: one of them is another than expected, or the ceremony ran in a cross-origin frame.
    """
    if client_data.type != expected_type.value:
        raise EnvelopeError(f"client data: type {client_data.type!r}, expected {expected_type.value!r}")
    if not hmac.compare_digest(client_data.challenge, expected_challenge):
        raise EnvelopeError("client data: another challenge: altered contents, a replay, or another nonce")
    if client_data.origin != origin_of(expected_rp_id):
        raise EnvelopeError(f"client data: origin {client_data.origin!r}, expected {origin_of(expected_rp_id)!r}")
    if client_data.cross_origin:
        raise EnvelopeError("client data: made in a cross-origin frame")


def check_flags(data: AuthenticatorData, expected: FLAG, expected_rp_id: str) -> None:
    """Check the relying party and that the flags are exactly ``expected``.

    Raises:
        EnvelopeError: another relying party, user not present or not verified, or other flags than expected.
    """
    if data.rp_id_hash != hashlib.sha256(expected_rp_id.encode()).digest():
        raise EnvelopeError(f"authenticator data: made for another relying party than {expected_rp_id}")
    for flag, meaning in ((FLAG.UP, "the user was not present"), (FLAG.UV, "the user was not verified")):
        if not data.flags & flag:
            raise EnvelopeError(f"authenticator data: {meaning}")
    if data.flags & (FLAG.BE | FLAG.BS):
        raise EnvelopeError("authenticator data: a credential that can be backed up, which voiceid's cannot")
    if data.flags != expected:
        raise EnvelopeError(f"authenticator data: flags {int(data.flags):#04x}, expected {int(expected):#04x}")


def es256_key(encoded: bytes) -> ES256:
    """The ES256 key in COSE form ``encoded``.

    Raises:
        EnvelopeError: not CBOR, another kind of key, or no point of the curve.
    """
    try:
        key = CoseKey.parse(cast(dict[int, Any], cbor.decode(encoded)))
        if not isinstance(key, ES256) or cbor.encode(key) != encoded or set(key) != {1, 3, -1, -2, -3}:
            raise ValueError("not an ES256 key in canonical form")
        if key[1] != 2 or key[-1] != 1 or len(key[-2]) != 32 or len(key[-3]) != 32:
            raise ValueError("not a key on P-256")
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + key[-2] + key[-3])
    except MALFORMED as error:
        raise EnvelopeError(f"registration: unusable public key ({error})") from None
    return key


def _instead(given: object, wanted: FileKind) -> str:
    """What ``given`` is in the place of what was ``wanted``, where that is known."""
    try:
        text = given if isinstance(given, str) else json.dumps(given)
    except (TypeError, ValueError, RecursionError):
        return ""
    return this_is(text.encode("utf-8", "replace"), wanted)


def _parse(response: str | Mapping[str, Any]) -> RegistrationResponse:
    try:
        text = response if isinstance(response, str) else json.dumps(response)
        if len(text) > MAX_RESPONSE:
            raise EnvelopeError(f"registration: response of over {MAX_RESPONSE} bytes")
        parsed: RegistrationResponse | None = RegistrationResponse.from_dict(json.loads(text))
    except MALFORMED as error:
        other = _instead(response, FileKind.REGISTRATION)
        raise EnvelopeError(f"registration: malformed response{other or f' ({error})'}") from None
    if parsed is None:
        raise EnvelopeError("registration: empty response")
    return parsed
