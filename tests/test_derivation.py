"""The derivation of credential keys, computed a second time from its definition."""

import hashlib
import hmac
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from voiceid.credentials.derivation import derive_private_key, length_prefixed

ORDER = 115792089210356248762697446949407573529996955224135760342422259061068512044369
KNOWN_SCALAR = 0x87082F323B56990D6E8BF4A92347285122B52EC8F9490527484F86458D7AA152
KNOWN_X = 0x68EA60B4FE3E8816BA2958D6AD2C6B23AB5206C3CB00D9F583F6D10132CD0DA8
SUBKEY = hashlib.sha256(b"sub-key").digest()
FIELDS = {
    "rp_id": "shop.example.org",
    "user_handle": b"handle",
    "salt": bytes(32),
    "frozen_features": b"features" * 8,
}


def scalar(subkey=SUBKEY, **changes):
    return derive_private_key(subkey, **{**FIELDS, **changes}).private_numbers().private_value


def independent_scalar(subkey, rp_id, user_handle, salt, frozen_features):
    message = b""
    for part in (b"\x01", rp_id.encode("utf-8"), user_handle, salt, frozen_features):
        message += struct.pack(">I", len(part)) + part
    prk = hmac.new(subkey, message, hashlib.sha256).digest()
    info = b"voiceid-credential-key-v1"
    first = hmac.new(prk, info + b"\x01", hashlib.sha256).digest()
    second = hmac.new(prk, first + info + b"\x02", hashlib.sha256).digest()
    return int((first + second)[:48].hex(), 16) % (ORDER - 1) + 1


@given(st.binary(min_size=32, max_size=32), st.text(), st.binary(), st.binary(), st.binary())
def test_the_scalar_is_that_of_the_definition(subkey, rp_id, user_handle, salt, features):
    fields = {"rp_id": rp_id, "user_handle": user_handle, "salt": salt, "frozen_features": features}
    assert scalar(subkey, **fields) == independent_scalar(subkey, **fields)


def test_known_answer():
    assert scalar() == KNOWN_SCALAR
    public = derive_private_key(SUBKEY, **FIELDS).public_key()
    assert isinstance(public.curve, ec.SECP256R1)
    assert public.public_numbers().x == KNOWN_X


def test_equal_arguments_give_an_equal_key_in_100_of_100():
    assert {scalar() for _ in range(100)} == {scalar()}


@pytest.mark.parametrize(
    "changes",
    [
        {"rp_id": "shop.example.com"},
        {"user_handle": b"handlf"},
        {"salt": bytes(31) + b"\x01"},
        {"frozen_features": b"features" * 7 + b"featurez"},
        {"subkey": hashlib.sha256(b"another").digest()},
    ],
)
def test_any_other_argument_gives_another_key(changes):
    assert scalar(**changes) != scalar()


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_no_two_lists_of_fields_are_joined_to_the_same_bytes(first, second):
    assert (length_prefixed(*first) == length_prefixed(*second)) == (first == second)


def test_bytes_moved_between_fields_change_the_key():
    assert scalar(user_handle=b"ab", salt=b"c") != scalar(user_handle=b"a", salt=b"bc")
