"""Checking an envelope."""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from fido2.webauthn import AuthenticatorData, CollectedClientData

from voiceid.credentials.envelope import MALFORMED, Contents, Envelope
from voiceid.errors import EnvelopeError
from voiceid.relying_party.registration import (
    FLAG,
    Registration,
    check_client_data,
    check_flags,
    check_id,
    es256_key,
)
from voiceid.types import Source
from voiceid.units.packing import UnitSequence
from voiceid.units.privacy import PrivacyProfile


@dataclass(frozen=True, slots=True)
class VerifiedEnvelope:
    """What a relying party may rely on. ``time`` is Unix seconds by the device's clock, which may be wrong.

    ``units``, ``codebook_hash`` and ``profile`` are None in an envelope without speech. Store ``registration``, whose
    counter is this envelope's.
    """

    rp_id: str
    credential_id: bytes
    counter: int
    source: Source
    time: float
    purpose: str | None
    units: UnitSequence | None
    codebook_hash: bytes | None
    profile: PrivacyProfile | None
    registration: Registration


def verify(
    envelope: bytes,
    *,
    registration: Registration,
    expected_nonce: bytes,
    expected_rp_id: str,
    expected_purpose: str | None = None,
    expected_codebook_hash: bytes | None = None,
    allow_file: bool = False,
    max_age: float | None = None,
    now: float | None = None,
) -> VerifiedEnvelope:
    """Check everything about ``envelope`` and return its contents.

    Args:
        registration: what was stored for this user.
        expected_nonce: the random bytes that were sent for this very ceremony; use each once.
        expected_rp_id: the service's own relying party id.
        expected_purpose: the purpose text that was asked for; None expects an envelope without one.
        expected_codebook_hash: the codebook that the service's decoder was trained for; None accepts any.
        allow_file: accept audio that did not come through the device's own microphone (demonstrations and tests).
        max_age: largest difference in seconds between the envelope's time and ``now``; None does not look at the time.
        now: Unix seconds; by default the clock.

    Raises:
        EnvelopeError: the first check that failed, in words.
        TypeError: ``envelope`` or ``expected_nonce`` is not bytes.
    """
    for name, given in (("envelope", envelope), ("expected_nonce", expected_nonce)):
        if not isinstance(given, bytes):
            raise TypeError(f"{name} is {type(given).__name__}; give bytes (of base64url text, decode it first)")
    check_id(expected_rp_id)
    parsed = Envelope.from_bytes(envelope)
    contents = parsed.contents
    if contents.rp_id != expected_rp_id or registration.rp_id != expected_rp_id:
        raise EnvelopeError(f"envelope: made for {contents.rp_id}, expected {expected_rp_id}")
    if not hmac.compare_digest(contents.credential_id, registration.credential_id):
        raise EnvelopeError("envelope: signed with another credential than the registered one")
    _check_assertion(parsed, registration, expected_nonce)
    if contents.counter <= registration.counter:
        raise EnvelopeError(
            f"envelope: counter {contents.counter} is not above the last seen ({registration.counter}): "
            "a replay, or a copy of the device"
        )
    if contents.source is not Source.MICROPHONE and not allow_file:
        raise EnvelopeError("envelope: the audio came from a file, not from the device's microphone")
    if contents.purpose != expected_purpose:
        raise EnvelopeError(
            f"envelope: signed for the purpose {contents.purpose!r}, not for {expected_purpose!r} (expected_purpose)"
        )
    if max_age is not None:
        _check_age(contents, max_age, time.time() if now is None else now)
    return VerifiedEnvelope(
        rp_id=contents.rp_id,
        credential_id=contents.credential_id,
        counter=contents.counter,
        source=contents.source,
        time=contents.time / 1000,
        purpose=contents.purpose,
        units=_decode_units(contents, expected_codebook_hash),
        codebook_hash=contents.units.codebook_hash if contents.units else None,
        profile=contents.units.profile if contents.units else None,
        registration=registration.advanced(contents.counter),
    )


def _check_assertion(envelope: Envelope, registration: Registration, nonce: bytes) -> None:
    contents, assertion = envelope.contents, envelope.assertion
    try:
        client_data = CollectedClientData(assertion.client_data)
        authenticator_data = AuthenticatorData(assertion.authenticator_data)
        check_client_data(
            client_data,
            expected_type=CollectedClientData.TYPE.GET,
            expected_challenge=contents.challenge(nonce),
            expected_rp_id=contents.rp_id,
        )
    except MALFORMED as error:
        raise EnvelopeError(f"envelope: malformed assertion ({error})") from None
    check_flags(authenticator_data, FLAG.UP | FLAG.UV, contents.rp_id)
    if authenticator_data.counter != contents.counter:
        raise EnvelopeError("envelope: its counter differs from that of the authenticator data")
    try:
        key = es256_key(registration.public_key)
        key.verify(authenticator_data + client_data.hash, assertion.signature)  # type: ignore[no-untyped-call]
    except InvalidSignature:
        raise EnvelopeError("envelope: the signature is wrong") from None


def _check_age(contents: Contents, max_age: float, now: float) -> None:
    age = now - contents.time / 1000
    if not abs(age) <= max_age:  # so that a limit that is not a number accepts nothing
        when = "old" if age > 0 else "ahead of the clock"
        raise EnvelopeError(f"envelope: {abs(age):.0f} s {when}, at most {max_age:g} s are accepted")


def _decode_units(contents: Contents, expected_hash: bytes | None) -> UnitSequence | None:
    if contents.units is None:
        return None
    if expected_hash is not None and contents.units.codebook_hash != expected_hash:
        raise EnvelopeError("envelope: units of another codebook than the expected one")
    return contents.units.sequence()
