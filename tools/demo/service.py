"""A service provider: it registers a credential, hands out nonces, and checks envelopes with two libraries."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import webauthn

from voiceid import relying_party
from voiceid.credentials.envelope import Envelope
from voiceid.errors import EnvelopeError
from voiceid.relying_party import Registration, VerifiedEnvelope

RP_ID = "demo.example"
ORIGIN = f"https://{RP_ID}"
PURPOSE = "open the front door"
NONCE_BYTES = 32
MAX_AGE = 60.0
"""Seconds from signing to verification."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the service learned from an envelope, and how it was checked."""

    verified: VerifiedEnvelope
    size: int
    """Bytes of the envelope."""
    refusal: str
    """Why the same envelope is refused where recordings from files are not asked for."""


class Service:
    """The relying party :data:`RP_ID`."""

    def __init__(self) -> None:
        self._registration: Registration | None = None

    def nonce(self) -> bytes:
        """A fresh challenge."""
        return secrets.token_bytes(NONCE_BYTES)

    def register(self, response: Mapping[str, Any], challenge: bytes) -> None:
        """Accept a new credential.

        Raises:
            EnvelopeError: voiceid's verifier refuses it.
            webauthn.helpers.exceptions.InvalidRegistrationResponse: py_webauthn refuses it.
        """
        self._registration = relying_party.verify_registration(
            response, expected_challenge=challenge, expected_rp_id=RP_ID
        )
        other = webauthn.verify_registration_response(
            credential=json.dumps(dict(response)),
            expected_challenge=challenge,
            expected_rp_id=RP_ID,
            expected_origin=ORIGIN,
            require_user_verification=True,
        )
        if other.credential_id != self._registration.credential_id:
            raise EnvelopeError("the two libraries read different credential ids from one registration")

    def receive(self, envelope: bytes, nonce: bytes) -> Receipt:
        """Check ``envelope`` with voiceid's verifier and with py_webauthn, and advance the signature counter.

        Raises:
            EnvelopeError: voiceid's verifier refuses it, or accepts it although it must not.
            webauthn.helpers.exceptions.InvalidAuthenticationResponse: py_webauthn refuses it.
        """
        registration = self._registered()
        parsed = Envelope.from_bytes(envelope)
        webauthn.verify_authentication_response(
            credential=json.dumps(parsed.authentication_response()),
            expected_challenge=parsed.contents.challenge(nonce),
            expected_rp_id=RP_ID,
            expected_origin=ORIGIN,
            credential_public_key=registration.public_key,
            credential_current_sign_count=registration.counter,
            require_user_verification=True,
        )
        refusal = self._refusal(envelope, nonce)
        verified = self._verify(envelope, nonce, allow_file=True)
        self._registration = verified.registration
        return Receipt(verified, len(envelope), refusal)

    def _refusal(self, envelope: bytes, nonce: bytes) -> str:
        try:
            self._verify(envelope, nonce, allow_file=False)
        except EnvelopeError as error:
            return str(error)
        raise EnvelopeError("an envelope made from a file passed as if it came from a microphone")

    def _verify(self, envelope: bytes, nonce: bytes, *, allow_file: bool) -> VerifiedEnvelope:
        return relying_party.verify(
            envelope,
            registration=self._registered(),
            expected_nonce=nonce,
            expected_rp_id=RP_ID,
            expected_purpose=PURPOSE,
            allow_file=allow_file,
            max_age=MAX_AGE,
        )

    def _registered(self) -> Registration:
        if self._registration is None:
            raise EnvelopeError("no credential is registered with the demo's service yet")
        return self._registration
