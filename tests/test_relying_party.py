"""What a relying party accepts, and above all what it does not."""

import contextlib
import copy
import dataclasses
import hashlib
import json
import subprocess
import sys

import pytest
import webauthn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor as fido_cbor
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AuthenticatorData, CollectedClientData
from hypothesis import given
from hypothesis import strategies as st
from webauthn.helpers.exceptions import InvalidAuthenticationResponse

from tests.vault_helpers import CODEBOOK_HASH, NONCE, RP, UNITS, Party, make_template
from voiceid.credentials.envelope import Assertion, Contents, Envelope
from voiceid.errors import EnvelopeError
from voiceid.relying_party import Registration, verify, verify_registration
from voiceid.types import Source
from voiceid.units.privacy import PrivacyProfile

FLAG = AuthenticatorData.FLAG


@pytest.fixture(scope="module")
def ada(tmp_path_factory):
    return Party(tmp_path_factory.mktemp("relying-party") / "vault")


@pytest.fixture(scope="module")
def envelope(ada):
    return ada.authenticate().to_bytes()


def test_a_good_envelope_gives_its_contents(ada):
    signed = ada.authenticate(purpose="Buy a coffee")
    verified = ada.verify(
        signed.to_bytes(), expected_purpose="Buy a coffee", expected_codebook_hash=CODEBOOK_HASH, max_age=60
    )
    assert verified.units == PrivacyProfile().apply(UNITS)
    assert verified.units.units[:4] == (5, 17, 99, 0)
    assert (verified.rp_id, verified.source, verified.purpose) == (RP, Source.MICROPHONE, "Buy a coffee")
    assert (verified.profile, verified.codebook_hash) == (PrivacyProfile(), CODEBOOK_HASH)
    assert verified.time == signed.contents.time / 1000
    assert verified.counter == verified.registration.counter == signed.contents.counter
    assert verified.registration.public_key == ada.registration.public_key


def test_an_envelope_may_be_without_speech(ada):
    verified = ada.verify(ada.authenticate(units=None).to_bytes(), expected_codebook_hash=CODEBOOK_HASH)
    assert (verified.units, verified.profile, verified.codebook_hash) == (None, None, None)


def test_any_flipped_byte_is_refused(ada, envelope):
    ada.verify(envelope)
    for position in range(len(envelope)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = envelope[:position] + bytes([envelope[position] ^ mask]) + envelope[position + 1 :]
            with pytest.raises(EnvelopeError):
                ada.verify(damaged)


@given(st.data())
def test_any_flipped_bits_are_refused(ada, envelope, data):
    flips = data.draw(st.sets(st.integers(0, 8 * len(envelope) - 1), min_size=1, max_size=4))
    damaged = bytearray(envelope)
    for bit in flips:
        damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(EnvelopeError):
        ada.verify(bytes(damaged))


def test_a_replay_is_refused_by_counter_and_by_nonce(ada):
    first, second = ada.authenticate().to_bytes(), ada.authenticate().to_bytes()
    verified = ada.verify(second)
    for old in (first, second):
        with pytest.raises(EnvelopeError, match=r"not above the last seen.*replay"):
            ada.verify(old, registration=verified.registration)
    with pytest.raises(EnvelopeError, match="another challenge"):
        ada.verify(second, expected_nonce=bytes(32))


def test_text_in_the_place_of_bytes_is_told_apart_from_a_bad_envelope(ada, envelope):
    with pytest.raises(TypeError, match="expected_nonce is str; give bytes"):
        verify(envelope, registration=ada.registration, expected_nonce=websafe_encode(NONCE), expected_rp_id=RP)
    with pytest.raises(TypeError, match="envelope is str; give bytes"):
        verify(websafe_encode(envelope), registration=ada.registration, expected_nonce=NONCE, expected_rp_id=RP)


def test_another_relying_party_is_refused(ada, envelope):
    with pytest.raises(EnvelopeError, match=r"made for shop\.example\.org, expected bank"):
        ada.verify(envelope, expected_rp_id="bank.example.org")
    bank = dataclasses.replace(ada.registration, rp_id="bank.example.org")
    with pytest.raises(EnvelopeError, match="made for"):
        ada.verify(envelope, registration=bank, expected_rp_id="bank.example.org")
    with pytest.raises(EnvelopeError, match="made for"):
        ada.verify(envelope, registration=bank)
    with pytest.raises(EnvelopeError, match="no relying party id"):
        ada.verify(envelope, expected_rp_id="Shop.example.org")


def test_another_credential_or_key_is_refused(ada, envelope):
    other = verify_registration(ada.register().response, expected_challenge=NONCE, expected_rp_id=RP)
    with pytest.raises(EnvelopeError, match="another credential"):
        ada.verify(envelope, registration=other)
    swapped = dataclasses.replace(ada.registration, public_key=other.public_key)
    with pytest.raises(EnvelopeError, match="signature is wrong"):
        ada.verify(envelope, registration=swapped)


def test_reenrolment_needs_a_new_registration(tmp_path):
    bob = Party(tmp_path / "vault", name="Bob")
    bob.vault.save_template(make_template("Bob", user_id=bob.template.user_id), replace=True)
    again = bob.register().credential
    with pytest.raises(EnvelopeError, match="another credential"):
        bob.verify(bob.authenticate(credential_id=again.credential_id).to_bytes())


def test_audio_from_a_file_is_refused_unless_allowed(ada):
    data = ada.authenticate(source=Source.FILE).to_bytes()
    with pytest.raises(EnvelopeError, match="from a file, not from the device's microphone"):
        ada.verify(data)
    assert ada.verify(data, allow_file=True).source is Source.FILE


def test_purpose_codebook_and_age_are_checked(ada):
    signed = ada.authenticate(purpose="Pay 5")
    data, moment = signed.to_bytes(), signed.contents.time / 1000
    for expected in (None, "Pay 6"):
        with pytest.raises(EnvelopeError, match="signed for the purpose 'Pay 5', not for"):
            ada.verify(data, expected_purpose=expected)
    with pytest.raises(EnvelopeError, match="another codebook"):
        ada.verify(data, expected_purpose="Pay 5", expected_codebook_hash=bytes(32))
    for now, words in ((moment + 61, "61 s old"), (moment - 61, "61 s ahead of the clock")):
        with pytest.raises(EnvelopeError, match=words):
            ada.verify(data, expected_purpose="Pay 5", max_age=60, now=now)
        with pytest.raises(EnvelopeError):
            ada.verify(data, expected_purpose="Pay 5", max_age=float("nan"), now=now)
        ada.verify(data, expected_purpose="Pay 5", max_age=62, now=now)


class Forger:
    """Signs with a registered key whatever it is told to."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        public = fido_cbor.encode(ES256.from_cryptography_key(self.key.public_key()))
        self.registration = Registration(RP, b"id", public, 0, "0")
        self.contents = Contents(RP, b"id", Source.MICROPHONE, 0, 1)

    def envelope(
        self, *, kind="webauthn.get", origin=f"https://{RP}", rp=RP, flags=FLAG.UP | FLAG.UV, counter=1, **more
    ):
        challenge = more.pop("challenge", self.contents.challenge(NONCE))
        client_data = CollectedClientData.create(kind, challenge, origin, **more)
        data = AuthenticatorData.create(hashlib.sha256(rp.encode()).digest(), flags, counter)
        return self.sign(bytes(client_data), bytes(data))

    def sign(self, client_data, data):
        message = data + hashlib.sha256(client_data).digest()
        signature = self.key.sign(message, ec.ECDSA(SHA256()))
        return Envelope(self.contents, Assertion(client_data, data, signature)).to_bytes()

    def verify(self, data):
        return verify(data, registration=self.registration, expected_nonce=NONCE, expected_rp_id=RP)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "webauthn.create"}, "type 'webauthn.create'"),
        ({"challenge": bytes(32)}, "another challenge"),
        ({"origin": "https://evil.example"}, "origin 'https://evil.example'"),
        ({"origin": f"http://{RP}"}, "origin"),
        ({"cross_origin": True}, "cross-origin"),
        ({"rp": "evil.example"}, "another relying party"),
        ({"flags": FLAG.UV}, "not present"),
        ({"flags": FLAG.UP}, "not verified"),
        ({"flags": FLAG(0)}, "not present"),
        ({"flags": FLAG.UP | FLAG.UV | FLAG.BE}, "backed up"),
        ({"flags": FLAG.UP | FLAG.UV | FLAG.BE | FLAG.BS}, "backed up"),
        ({"flags": FLAG(0x07)}, "flags 0x07"),
        ({"counter": 2}, "counter differs"),
    ],
)
def test_a_rightly_signed_assertion_must_still_say_the_right_things(changes, reason):
    forger = Forger()
    forger.verify(forger.envelope())
    with pytest.raises(EnvelopeError, match=reason):
        forger.verify(forger.envelope(**changes))


GOOD_DATA = hashlib.sha256(RP.encode()).digest() + bytes.fromhex("0500000001")


@pytest.mark.parametrize(
    ("client_data", "data"),
    [
        (b"", GOOD_DATA),
        (b"{}", GOOD_DATA),
        (b"[]", GOOD_DATA),
        (b"null", GOOD_DATA),
        (b"\xff", GOOD_DATA),
        (b"[" * 40000, GOOD_DATA),
        (b'{"type":1,"challenge":2,"origin":3}', GOOD_DATA),
        (b'{"type":"webauthn.get","challenge":"\xc3\xa9","origin":""}', GOOD_DATA),
        (b'{"type":"webauthn.get","challenge":"AA","origin":"","crossOrigin":[]}', GOOD_DATA),
        (None, b""),
        (None, GOOD_DATA[:-1]),
        (None, GOOD_DATA + b"\0"),
        (None, GOOD_DATA[:32] + bytes.fromhex("4500000001") + b"\xff" * 40),
        (None, GOOD_DATA[:32] + bytes.fromhex("8500000001") + b"\x9f" * 40),
        (None, GOOD_DATA[:32] + bytes.fromhex("8500000001") + b"\x81" * 20000),
    ],
)
def test_a_malformed_assertion_is_an_envelope_error(client_data, data):
    forger = Forger()
    good = Envelope.from_bytes(forger.envelope()).assertion.client_data
    with pytest.raises(EnvelopeError):
        forger.verify(forger.sign(good if client_data is None else client_data, data))


@given(st.binary(max_size=300))
def test_noise_is_an_envelope_error(ada, data):
    with pytest.raises(EnvelopeError):
        ada.verify(data)


@pytest.mark.parametrize("text", ["1", "null", "[]", '"rp_id"', "[[]]", "{}"])
def test_json_that_is_no_registration_is_refused(text):
    with pytest.raises(EnvelopeError, match="expected the keys"):
        Registration.from_json(json.loads(text))


def test_a_registration_survives_json(ada):
    text = json.dumps(ada.registration.to_json())
    assert Registration.from_json(json.loads(text)) == ada.registration
    assert ada.registration.aaguid == "5cee1575-2b41-4b3e-8f68-28effc360a14"


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": -1},
        {"counter": True},
        {"counter": 2**32},
        {"public_key": "AAAA"},
        {"public_key": "é"},
        {"credential_id": ""},
        {"credential_id": 5},
        {"rp_id": "x y"},
        {"extra": 1},
        {"public_key": websafe_encode(fido_cbor.encode({1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)}))},
        {"public_key": websafe_encode(fido_cbor.encode({1: 2, 3: -7, -1: 2, -2: bytes(32), -3: bytes(32)}))},
        {"public_key": websafe_encode(fido_cbor.encode({1: 3, 3: -257, -1: bytes(256), -2: b"\1\0\1"}))},
    ],
)
def test_a_damaged_registration_is_refused(ada, changes):
    with pytest.raises(EnvelopeError, match=r"registration|relying party id"):
        Registration.from_json({**ada.registration.to_json(), **changes})


def changed_registration(response, **changes):
    """A RegistrationResponseJSON with other authenticator data or client data."""
    response = copy.deepcopy(response)
    inner = response["response"]
    attestation = fido_cbor.decode(websafe_decode(inner["attestationObject"]))
    if "flags" in changes:
        data = attestation["authData"]
        attestation["authData"] = data[:32] + bytes([changes["flags"]]) + data[33:]
    attestation["fmt"] = changes.get("fmt", attestation["fmt"])
    inner["attestationObject"] = websafe_encode(fido_cbor.encode(attestation))
    if told := {name: value for name, value in changes.items() if name in ("origin", "challenge")}:
        client_data = {**json.loads(websafe_decode(inner["clientDataJSON"])), **told}
        inner["clientDataJSON"] = websafe_encode(json.dumps(client_data).encode())
    return response


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flags": 0x41}, "not verified"),
        ({"flags": 0x44}, "not present"),
        ({"flags": 0x4D}, "backed up"),
        ({"fmt": "packed"}, "attestation format"),
        ({"origin": "https://evil.example"}, "origin"),
    ],
)
def test_a_registration_that_says_something_else_is_refused(ada, changes, reason):
    response = changed_registration(ada.registered.response, **changes)
    with pytest.raises(EnvelopeError, match=reason):
        verify_registration(response, expected_challenge=NONCE, expected_rp_id=RP)


def test_a_registration_for_others_or_malformed_is_refused(ada):
    good = ada.registered.response
    with pytest.raises(EnvelopeError, match="another challenge"):
        verify_registration(good, expected_challenge=bytes(32), expected_rp_id=RP)
    with pytest.raises(EnvelopeError, match="origin"):
        verify_registration(good, expected_challenge=NONCE, expected_rp_id="bank.example.org")
    other = ada.register().response
    mixed = {**good, "id": other["id"], "rawId": other["rawId"]}
    for bad in ("", "{}", "[]", "null", "5", "[" * 9000, " " * 20_000, {}, {"id": 1}, {**good, "rawId": "AA"}, mixed):
        with pytest.raises(EnvelopeError, match="registration"):
            verify_registration(bad, expected_challenge=NONCE, expected_rp_id=RP)


@pytest.mark.parametrize("challenge", [b"", b"fifteen bytes .."[:15]])
def test_no_registration_answers_a_challenge_that_could_be_guessed(ada, challenge):
    response = changed_registration(ada.registered.response, challenge=websafe_encode(challenge))
    with pytest.raises(EnvelopeError, match="a challenge has at least 16 bytes"):
        verify_registration(response, expected_challenge=challenge, expected_rp_id=RP)


@given(st.data())
def test_a_registration_with_any_character_changed_gives_the_same_key_or_an_error(ada, data):
    text = json.dumps(ada.registered.response)
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters(codec="utf-8")) + text[at + 1 :]
    with contextlib.suppress(EnvelopeError):
        found = verify_registration(changed, expected_challenge=NONCE, expected_rp_id=RP)
        assert found.public_key == ada.registration.public_key


def test_an_independent_webauthn_library_verifies_registration_and_assertion(ada):
    registered = webauthn.verify_registration_response(
        credential=json.dumps(ada.registered.response),
        expected_challenge=NONCE,
        expected_rp_id=RP,
        expected_origin=f"https://{RP}",
        require_user_verification=True,
    )
    assert registered.credential_public_key == ada.registration.public_key
    assert registered.credential_id == ada.registration.credential_id
    assert not registered.credential_backed_up
    signed = ada.authenticate(purpose="Pay 5")
    common = {
        "expected_rp_id": RP,
        "expected_origin": f"https://{RP}",
        "credential_public_key": registered.credential_public_key,
        "credential_current_sign_count": registered.sign_count,
        "require_user_verification": True,
    }
    response = json.dumps(signed.authentication_response())
    verified = webauthn.verify_authentication_response(
        credential=response, expected_challenge=signed.contents.challenge(NONCE), **common
    )
    assert verified.new_sign_count == signed.contents.counter
    altered = dataclasses.replace(signed.contents, purpose="Pay 500")
    with pytest.raises(InvalidAuthenticationResponse):
        webauthn.verify_authentication_response(
            credential=response, expected_challenge=altered.challenge(NONCE), **common
        )


def test_it_needs_no_models_and_no_microphone():
    code = (
        "import sys, voiceid.relying_party, voiceid.units.packing\n"
        "heavy = {'onnxruntime', 'sounddevice', 'soundfile', 'soxr', 'webrtcvad', 'torch', 'scipy'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout.strip()) == (0, "")


def test_a_registration_never_falls_back(ada):
    assert ada.registration.advanced(9).advanced(3).counter == 9
