"""The envelope's encoding, its limits, and the challenge that it signs."""

import contextlib
import hashlib

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vault_helpers import CODEBOOK_HASH, NONCE, RP, UNITS, Party
from voiceid import cbor
from voiceid.credentials.envelope import MAX_ENVELOPE, Contents, Envelope, SpeechUnits
from voiceid.errors import EnvelopeError
from voiceid.types import Source
from voiceid.units.packing import UnitSequence, pack
from voiceid.units.privacy import PrivacyProfile


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    ada = Party(tmp_path_factory.mktemp("envelope") / "vault")
    return ada.authenticate(purpose="Buy a coffee")


def table_of(envelope):
    return cbor2.loads(envelope.to_bytes())


def test_it_is_canonical_cbor_and_parses_to_the_same(signed):
    data = signed.to_bytes()
    assert cbor2.dumps(cbor2.loads(data), canonical=True) == data
    assert Envelope.from_bytes(data) == signed
    assert Envelope.from_bytes(data).to_bytes() == data


def test_it_holds_what_the_format_says_and_nothing_else(signed):
    table = table_of(signed)
    assertion = table.pop("assertion")
    assert set(assertion) == {"client_data", "authenticator_data", "signature"}
    packed = table["units"].pop("packed")
    assert table == {
        "version": 1,
        "rp": RP,
        "credential": signed.contents.credential_id,
        "source": "microphone",
        "time": signed.contents.time,
        "counter": 1,
        "purpose": "Buy a coffee",
        "units": {
            "codebook_hash": CODEBOOK_HASH,
            "profile": {"codebook": 100, "merge_runs": True, "durations": False},
        },
    }
    assert packed == pack(PrivacyProfile().apply(UNITS))
    assert len(signed.to_bytes()) < 1024


def test_the_challenge_is_that_of_the_definition(signed):
    table = table_of(signed)
    del table["assertion"]
    digest = hashlib.sha256(cbor2.dumps(table, canonical=True)).digest()
    message = b"voiceid-envelope-v1" + len(NONCE).to_bytes(4, "big") + NONCE + digest
    assert signed.contents.challenge(NONCE) == hashlib.sha256(message).digest()


def test_a_nonce_has_16_to_1024_bytes(signed):
    for nonce in (b"", bytes(15), bytes(1025)):
        with pytest.raises(EnvelopeError, match="nonce has 16 to 1024"):
            signed.contents.challenge(nonce)
    assert signed.contents.challenge(bytes(16)) != signed.contents.challenge(bytes(17))


CHANGES = [
    (("version",), 2, "version 2"),
    (("version",), True, "version"),
    (("rp",), "not a domain", "no relying party id"),
    (("rp",), b"shop.example.org", "rp is bytes"),
    (("credential",), b"", "credential id of 0"),
    (("credential",), bytes(1024), "credential id of 1024"),
    (("source",), "telephone", "unknown source"),
    (("time",), -1, "time -1"),
    (("time",), 2**53, "time"),
    (("time",), True, "time is bool"),
    (("counter",), 0, "counter 0"),
    (("counter",), 2**32, "counter"),
    (("counter",), "1", "counter is str"),
    (("purpose",), "", "purpose"),
    (("purpose",), "a\u202eb", "invisible"),
    (("purpose",), "a\0", "control"),
    (("extra",), 1, "unknown key 'extra'"),
    (("units",), b"", "units is bytes"),
    (("units", "extra"), 1, "unknown key 'extra'"),
    (("units", "codebook_hash"), bytes(31), "31 bytes"),
    (("units", "profile", "codebook"), 77, "codebook 77"),
    (("units", "profile", "merge_runs"), 1, "merge_runs is int"),
    (("units", "profile", "merge_runs"), None, "missing key 'merge_runs'"),
    (("units", "profile", "extra"), 1, "unknown key"),
    (("units", "packed"), None, "missing key 'packed'"),
    (("assertion",), None, "missing key 'assertion'"),
    (("assertion", "signature"), "text", "signature is str"),
    (("assertion", "signature"), None, "missing key 'signature'"),
    (("assertion", "extra"), b"", "unknown key"),
    (("assertion", "client_data"), bytes(4097), "client data of 4097"),
    (("assertion", "authenticator_data"), bytes(36), "authenticator data of 36"),
    (("assertion", "authenticator_data"), bytes(38), "authenticator data of 38"),
    (("assertion", "signature"), b"", "signature of 0"),
]


@pytest.mark.parametrize(("path", "value", "reason"), CHANGES)
def test_a_malformed_envelope_is_refused_with_its_reason(signed, path, value, reason):
    table = table_of(signed)
    inner = table
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(EnvelopeError, match=reason):
        Envelope.from_bytes(cbor2.dumps(table, canonical=True))


def test_size_leftovers_and_other_encodings_are_refused(signed):
    data = signed.to_bytes()
    with pytest.raises(EnvelopeError, match="at most 65536"):
        Envelope.from_bytes(data + bytes(MAX_ENVELOPE))
    with pytest.raises(EnvelopeError, match="left over"):
        Envelope.from_bytes(data + b"\0")
    for end in range(len(data)):
        with pytest.raises(EnvelopeError):
            Envelope.from_bytes(data[:end])
    unordered = cbor2.dumps(dict(reversed(table_of(signed).items())))
    with pytest.raises(EnvelopeError, match="out of order"):
        Envelope.from_bytes(unordered)


def test_an_utterance_too_long_for_an_envelope_is_refused_before_it_is_sent(signed):
    large = SpeechUnits(bytes(MAX_ENVELOPE), CODEBOOK_HASH, PrivacyProfile())
    contents = Contents(RP, b"id", Source.FILE, 0, 1, units=large)
    with pytest.raises(EnvelopeError, match="shorten the utterance"):
        Envelope(contents, signed.assertion).to_bytes()


def test_units_must_be_packed_as_the_profile_says():
    frames = UnitSequence(100, (1, 1, 2), merged=False)
    with pytest.raises(EnvelopeError, match="otherwise than the privacy profile"):
        SpeechUnits(pack(frames), CODEBOOK_HASH, PrivacyProfile()).sequence()
    shared = SpeechUnits.share([1, 1, 2], PrivacyProfile(durations=True), CODEBOOK_HASH).sequence()
    assert (shared.units, shared.durations) == ((1, 2), (2, 1))


FIELDS = st.dictionaries(
    st.sampled_from(["version", "rp", "credential", "source", "time", "counter", "purpose", "units", "assertion", "x"]),
    st.one_of(st.integers(-(2**63), 2**64 - 1), st.booleans(), st.text(max_size=20), st.binary(max_size=40))
    | st.dictionaries(st.sampled_from(["packed", "profile", "signature"]), st.binary(max_size=9), max_size=3),
    max_size=10,
)


@given(st.binary(max_size=400) | FIELDS.map(cbor.encode))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_an_envelope_or_an_envelope_error(data):
    with contextlib.suppress(EnvelopeError):
        assert Envelope.from_bytes(data).to_bytes() == data


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_spliced_bytes_are_an_envelope_or_an_envelope_error(signed, data):
    good = signed.to_bytes()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    spliced = good[:start] + data.draw(st.binary(max_size=12)) + good[end:]
    with contextlib.suppress(EnvelopeError):
        parsed = Envelope.from_bytes(spliced)
        assert parsed.to_bytes() == spliced
        parsed.authentication_response()
