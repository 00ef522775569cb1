"""Registration and assertion: only after an acceptance, only for the right user and relying party."""

import contextlib
import dataclasses
import json
import os
import signal
import time

import pytest
from fido2.server import Fido2Server
from fido2.utils import websafe_encode
from fido2.webauthn import AttestedCredentialData, PublicKeyCredentialRpEntity, RegistrationResponse
from hypothesis import given
from hypothesis import strategies as st

from tests.vault_helpers import DEVICE_KEY, NONCE, OTHER_KEY, RP, Party, accepted, make_template
from voiceid.credentials.authenticator import AAGUID, Authenticator
from voiceid.credentials.rp_id import check_rp_id
from voiceid.enrolment.vault import Vault
from voiceid.errors import ClockError, CredentialError, EnvelopeError, UnknownUserError
from voiceid.types import Decision, Outcome, Source


@pytest.fixture
def ada(tmp_path):
    return Party(tmp_path / "vault")


def public_key(registered):
    return registered.credential.public_key


@pytest.mark.parametrize("kind", ["credential", "counter"])
def test_a_credential_that_cannot_be_read_is_not_called_missing(ada, kind):
    (record,) = ada.vault.folder.glob(f"users/*/{kind}-*")
    record.write_bytes(record.read_bytes()[:-1])
    with pytest.raises(CredentialError, match=r"1 of this user cannot be read \('voiceid credentials list") as caught:
        ada.authenticator.check_credential("Ada", rp_id=RP)
    assert "register one first" not in str(caught.value)


def test_a_registration_says_what_webauthn_asks_for(ada):
    response = RegistrationResponse.from_dict(json.loads(json.dumps(ada.registered.response)))
    attestation = response.response.attestation_object
    data = attestation.auth_data
    assert (attestation.fmt, attestation.att_stmt) == ("none", {})
    assert data.is_user_present()
    assert data.is_user_verified()
    assert not data.is_backup_eligible()
    assert not data.is_backed_up()
    assert (data.counter, data.credential_data.aaguid) == (0, AAGUID)
    assert response.response.client_data.origin == f"https://{RP}"
    assert response.response.client_data.challenge == NONCE
    assert data.credential_data.credential_id == ada.registered.credential.credential_id


def test_the_same_key_in_100_of_100_assertions(ada):
    server = Fido2Server(PublicKeyCredentialRpEntity(id=RP, name="Shop"))
    key = ada.registered.credential.public_key
    known = AttestedCredentialData(
        AAGUID + len(ada.registration.credential_id).to_bytes(2, "big") + ada.registration.credential_id + key
    )
    for number in range(1, 101):
        envelope = ada.authenticate(units=None)
        state = {"challenge": websafe_encode(envelope.contents.challenge(NONCE)), "user_verification": "required"}
        server.authenticate_complete(state, [known], envelope.authentication_response())
        assert envelope.contents.counter == number


def test_another_salt_party_device_or_enrolment_is_always_another_key(tmp_path):
    ada = Party(tmp_path / "a")
    keys = [public_key(ada.registered)]
    keys += [public_key(ada.register()) for _ in range(10)]
    keys += [public_key(ada.register(rp_id=f"shop{n}.example.org")) for n in range(10)]
    keys += [public_key(ada.register(user_handle=bytes([n]))) for n in range(10)]
    for _ in range(10):
        ada.vault.save_template(make_template(user_id=ada.template.user_id), replace=True)
        keys.append(public_key(ada.register()))
    keys.append(public_key(Party(tmp_path / "b", device_key=OTHER_KEY).registered))
    keys.append(public_key(Party(tmp_path / "c").registered))
    assert len(set(keys)) == len(keys)


def test_adaptation_changes_no_key(ada):
    ada.vault.save_template(ada.template.adapted(make_template(seed=9, count=7).utterances), replace=True)
    ada.verify(ada.authenticate().to_bytes())


def test_user_handles_differ_by_relying_party_unless_given(ada):
    other = ada.register(rp_id="bank.example.org").credential
    assert other.user_handle != ada.registered.credential.user_handle
    assert ada.register().credential.user_handle == ada.registered.credential.user_handle
    assert ada.register(user_handle=b"42").credential.user_handle == b"42"


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.ACCEPTED])
def test_no_credential_without_acceptance(ada, outcome):
    decision = Decision(outcome, ("why",), user="Ada")
    for attempt in (ada.register, ada.authenticate):
        with pytest.raises(CredentialError, match=f"this one is {outcome.value}"):
            attempt(decision=decision)
    assert ada.authenticate().contents.counter == 1
    assert len(ada.vault.credentials("Ada")) == 1


@pytest.mark.parametrize("decision", [True, None, "accepted", Outcome.ACCEPTED])
def test_what_is_no_decision_opens_nothing(ada, decision):
    for attempt in (ada.register, ada.authenticate):
        with pytest.raises(CredentialError, match="need a decision"):
            attempt(decision=decision)


def test_the_acceptance_of_somebody_else_opens_nothing(ada):
    ada.vault.save_template(make_template("Bob"))
    for decision in (accepted("Bob"), accepted("ada"), dataclasses.replace(accepted(), user=None)):
        for attempt in (ada.register, ada.authenticate):
            with pytest.raises(CredentialError, match="somebody else"):
                attempt(decision=decision)


def test_a_credential_is_checked_against_user_party_device_and_revocation(ada, tmp_path):
    ada.vault.save_template(make_template("Bob"))
    check = ada.authenticator.check_credential
    own = ada.registered.credential
    assert check("Ada", rp_id=RP) == check("Ada", rp_id=RP, credential_id=own.credential_id) == own
    newer = ada.register().credential
    assert check("Ada", rp_id=RP, credential_id=newer.credential_id) == newer
    with pytest.raises(CredentialError, match=r"no credential for bank\.example\.org"):
        check("Ada", rp_id="bank.example.org")
    with pytest.raises(CredentialError, match="not made by this device for bank"):
        check("Ada", rp_id="bank.example.org", credential_id=own.credential_id)
    with pytest.raises(CredentialError, match="another user's"):
        check("Bob", rp_id=RP, credential_id=own.credential_id)
    with pytest.raises(UnknownUserError):
        check("Eve", rp_id=RP, credential_id=own.credential_id)
    stranger = Party(tmp_path / "other", device_key=OTHER_KEY).registered.credential
    with pytest.raises(CredentialError, match="not made by this device"):
        check("Ada", rp_id=RP, credential_id=stranger.credential_id)
    ada.vault.delete_credential("Ada", own.credential_id)
    with pytest.raises(CredentialError, match="revoked"):
        check("Ada", rp_id=RP, credential_id=own.credential_id)
    ada.vault.save_template(make_template(user_id=ada.template.user_id), replace=True)
    with pytest.raises(CredentialError, match="re-enrolment"):
        check("Ada", rp_id=RP, credential_id=newer.credential_id)


def test_a_credential_id_with_any_bit_flipped_is_unknown(ada):
    good = ada.registered.credential.credential_id
    for position in range(len(good)):
        bad = good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :]
        with pytest.raises(CredentialError, match="not made by this device"):
            ada.authenticator.check_credential("Ada", rp_id=RP, credential_id=bad)
    for bad in (b"", good[:5], good[:-1], good + b"\0"):
        with pytest.raises(CredentialError, match="not made by this device"):
            ada.authenticator.check_credential("Ada", rp_id=RP, credential_id=bad)


def test_the_counter_is_spent_even_if_nothing_is_signed_with_it(ada):
    ada.vault.next_counter(ada.registered.credential.credential_id)
    assert ada.authenticate().contents.counter == 2
    again = Authenticator(Vault.open(ada.vault.folder, DEVICE_KEY), DEVICE_KEY)
    envelope = again.authenticate("Ada", rp_id=RP, nonce=NONCE, source=Source.FILE, decision=accepted())
    assert envelope.contents.counter == 3


def test_an_impossible_request_spends_no_counter(ada):
    for fields in ({"nonce": b"short"}, {"purpose": ""}, {"purpose": "pay\n"}, {"purpose": "x" * 257}):
        with pytest.raises(EnvelopeError):
            ada.authenticate(**fields)
    assert ada.authenticate(purpose="Pay 12 € to Bob").contents.counter == 1


def test_a_registration_that_was_not_delivered_is_not_stored(ada):
    def lose(_):
        raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError):
        ada.register(deliver=lose)
    child = os.fork()
    if child == 0:
        ada.register(deliver=lambda _: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert ada.authenticator.check_credential("Ada", rp_id=RP) == ada.registered.credential
    heard = []
    assert ada.register(deliver=heard.append) == heard[0]
    assert ada.authenticator.check_credential("Ada", rp_id=RP) == heard[0].credential


def test_a_clock_that_shows_no_date_signs_and_registers_nothing(ada, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: -(10**9))
    for attempt in (ada.register, ada.authenticate):
        with pytest.raises(ClockError, match="1969-12-31"):
            attempt()
    monkeypatch.undo()
    assert ada.authenticate().contents.counter == 1


def test_impossible_registrations_are_refused(ada):
    for fields, reason in (
        ({"challenge": bytes(15)}, "at least 16"),
        ({"user_handle": b""}, "1 to 64"),
        ({"user_handle": bytes(65)}, "1 to 64"),
        ({"rp_id": "https://shop.example.org"}, "no relying party id"),
    ):
        with pytest.raises(CredentialError, match=reason):
            ada.register(**fields)


@pytest.mark.parametrize("rp_id", ["localhost", "example.org", "a.b-c.example.co.uk", "xn--bcher-kva.example", "x.y"])
def test_domains_are_relying_party_ids(rp_id):
    assert check_rp_id(rp_id) == rp_id


@pytest.mark.parametrize(
    "rp_id",
    [
        "",
        "org",
        "Example.org",
        "bücher.example",
        "example.org.",
        ".example.org",
        "a..b",
        "-a.org",
        "a-.org",
        "a_b.org",
        "192.168.0.1",
        "example.org:443",
        "https://example.org",
        "example.org/x",
        "exa mple.org",
        "example.org\n",
        "a" * 64 + ".org",
        "a." * 126 + "org",
        "[::1]",
    ],
)
def test_anything_else_is_none(rp_id):
    with pytest.raises(CredentialError, match="no relying party id"):
        check_rp_id(rp_id)


@given(st.text())
def test_any_text_is_a_domain_or_a_credential_error(text):
    with contextlib.suppress(CredentialError):
        assert check_rp_id(text).isascii()
