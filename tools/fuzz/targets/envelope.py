"""Envelopes, registrations, and all that a relying party verifies; some envelopes are signed anew once they parse."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256
from fido2.webauthn import AuthenticatorData, CollectedClientData

from tools.fuzz.enrolled import ACCEPTED, NAME, NONCE, RP, enrol
from tools.fuzz.target import Target
from voiceid.credentials.envelope import Assertion, Contents, Envelope, SpeechUnits
from voiceid.credentials.rp_id import origin_of
from voiceid.errors import EnvelopeError
from voiceid.relying_party import Registration, verify, verify_registration
from voiceid.types import Source
from voiceid.units.privacy import PrivacyProfile

VERIFY, SIGN_AND_VERIFY, REGISTER, RESTORE = (bytes([number]) for number in range(4))
"""What the first byte of an input asks for."""

_FLAG = AuthenticatorData.FLAG
_KEY = ec.derive_private_key(0x5EED, ec.SECP256R1())
_COSE = cbor.encode(dict(ES256.from_cryptography_key(_KEY.public_key())))
_UNITS = SpeechUnits.share([5, 5, 17, 17, 99, 0, 42] * 20, PrivacyProfile(), bytes(32))


def signed(contents: Contents) -> Envelope:
    """``contents`` with a valid assertion, so that changed contents get past the signature."""
    client_data = CollectedClientData.create(
        type=CollectedClientData.TYPE.GET.value, challenge=contents.challenge(NONCE), origin=origin_of(RP)
    )
    rp_hash = hashlib.sha256(RP.encode()).digest()
    data = AuthenticatorData.create(rp_hash, _FLAG.UP | _FLAG.UV, contents.counter)
    signature = _KEY.sign(data + client_data.hash, ec.ECDSA(SHA256()))
    return Envelope(contents, Assertion(bytes(client_data), bytes(data), signature))


def make(folder: Path) -> Target:
    ada = enrol(folder)
    real = ada.authenticator.authenticate(
        NAME, rp_id=RP, nonce=NONCE, source=Source.MICROPHONE, decision=ACCEPTED, units=_UNITS, purpose="pay 10"
    )
    response = json.dumps(dict(ada.registered.response))
    registration = verify_registration(response, expected_challenge=NONCE, expected_rp_id=RP)

    def run(data: bytes) -> None:
        kind, rest = data[:1], data[1:]
        with contextlib.suppress(EnvelopeError):
            if kind == REGISTER:
                verify_registration(
                    rest.decode("utf-8", "replace"), expected_challenge=NONCE, expected_rp_id=RP
                ).to_json()
            elif kind == RESTORE:
                with contextlib.suppress(ValueError, RecursionError):
                    Registration.from_json(json.loads(rest)).to_json()
            else:
                _verify(rest, registration, sign=kind == SIGN_AND_VERIFY)

    seeds = (
        VERIFY + real.to_bytes(),
        SIGN_AND_VERIFY + real.to_bytes(),
        SIGN_AND_VERIFY + signed(Contents(RP, b"id", Source.FILE, 1, 1)).to_bytes(),
        REGISTER + response.encode(),
        RESTORE + json.dumps(registration.to_json()).encode(),
    )
    return Target(run, seeds, 4096, ("version", "rp", "source", "microphone", "codebook", "merge_runs", "durations"))


def _verify(data: bytes, registration: Registration, *, sign: bool) -> None:
    envelope = Envelope.from_bytes(data)
    if envelope.to_bytes() != data:
        raise AssertionError("another encoding of the same envelope was accepted")
    if sign:
        contents = envelope.contents
        data = signed(contents).to_bytes()
        registration = Registration(RP, contents.credential_id, _COSE, 0, registration.aaguid)
    with contextlib.suppress(EnvelopeError):
        envelope.authentication_response()
    verify(
        data,
        registration=registration,
        expected_nonce=NONCE,
        expected_rp_id=RP,
        expected_purpose=envelope.contents.purpose,
        allow_file=True,
        max_age=1e12,
    )
