"""Strict canonical CBOR against an independent implementation."""

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceid import cbor
from voiceid.errors import EnvelopeError

SCALARS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.booleans(), st.binary(max_size=300), st.text(max_size=50))
MAPS = st.recursive(
    st.dictionaries(st.text(max_size=8), SCALARS, max_size=6),
    lambda children: st.dictionaries(st.text(max_size=8), st.one_of(SCALARS, children), max_size=4),
    max_leaves=8,
)


def decode(data):
    return cbor.decode(data, where="test", error=EnvelopeError)


@given(st.dictionaries(st.text(max_size=300), SCALARS, max_size=6))
def test_encoding_is_that_of_an_independent_library_and_decodes_to_the_same_value(value):
    assert cbor.encode(value) == cbor2.dumps(value, canonical=True)
    assert decode(cbor.encode(value)) == value


@given(st.binary(max_size=60) | MAPS.map(lambda value: cbor2.dumps(value)))
def test_whatever_is_accepted_encodes_to_the_same_bytes(data):
    try:
        value = decode(data)
    except EnvelopeError:
        return
    assert cbor.encode(value) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (bytes.fromhex("a1"), "truncated"),
        (bytes.fromhex("a1616101") + b"\0", "left over"),
        (bytes.fromhex("a161611801"), "more bytes than it needs"),
        (bytes.fromhex("a16161190017"), "more bytes than it needs"),
        (bytes.fromhex("a2616201616101"), "out of order"),
        (bytes.fromhex("a2616101616102"), "out of order"),
        (bytes.fromhex("a10101"), "not text"),
        (bytes.fromhex("a16161f6"), "major type 7"),
        (bytes.fromhex("a16161f93c00"), "not canonical|major type 7"),
        (bytes.fromhex("a16161c101"), "major type 6"),
        (bytes.fromhex("a1616180"), "major type 4"),
        (bytes.fromhex("bf616101ff"), "indefinite"),
        (bytes.fromhex("a161615f4101ff"), "indefinite"),
        (bytes.fromhex("a161615affffffff"), "truncated"),
        (bytes.fromhex("a1616161ff"), "UTF-8"),
        (bytes.fromhex("01"), "not a map"),
        (bytes.fromhex("a16161") * 2000, "deeper"),
        (bytes.fromhex("bbffffffffffffffff"), "truncated"),
    ],
)
def test_anything_else_is_refused_with_its_reason(data, reason):
    with pytest.raises(EnvelopeError, match=reason):
        decode(data)


def test_field_check_names_the_key_and_takes_no_bool_for_an_int():
    for table, reason in (({}, "missing key 'n'"), ({"n": True}, "n is bool"), ({"n": 1, "m": 2}, "unknown key 'm'")):
        with pytest.raises(EnvelopeError, match=reason):
            cbor.check_fields(table, {"n": int}, where="test", error=EnvelopeError)
