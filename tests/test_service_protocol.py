"""The protocol: strict parsing, answers that say no more than they may, and documentation that is current."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceid.service import wire
from voiceid.service.documentation import document
from voiceid.service.methods import METHOD_OF, METHODS, NOTIFICATIONS
from voiceid.service.protocol import (
    Request,
    RequestError,
    encode_error,
    encode_notification,
    encode_result,
    parse_request,
)
from voiceid.service.schema import Access, Fault, Kind

DOCS = Path(__file__).resolve().parents[1] / "docs" / "service.md"

VALUES = {
    Kind.TEXT: "x" * 4,
    Kind.BYTES: wire.to_base64(b"\x01\x02" * 8),
    Kind.INTEGER: 1,
    Kind.BOOLEAN: True,
    Kind.NUMBER: 1.0,
    Kind.TEXTS: [],
    Kind.OBJECT: {},
    Kind.OBJECTS: [],
}


def line(**message):
    return json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()


def fault_of(data):
    with pytest.raises(RequestError) as caught:
        parse_request(data)
    return caught.value.fault


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_takes_what_is_described_and_nothing_else(method):
    params = {field.name: VALUES[field.kind] for field in method.params}
    request = parse_request(line(method=method.name, params=params))
    assert request.method is method and set(request.params) == set(params)
    assert fault_of(line(method=method.name, params={**params, "more": 1})) is Fault.INVALID_PARAMS
    for field in method.params:
        if not field.optional:
            rest = {key: value for key, value in params.items() if key != field.name}
            assert fault_of(line(method=method.name, params=rest)) is Fault.INVALID_PARAMS
        assert fault_of(line(method=method.name, params={**params, field.name: None})) is Fault.INVALID_PARAMS
        if field.kind in (Kind.TEXT, Kind.BYTES):
            long = "A" * (4 * (field.most // 3 + 2))
            assert fault_of(line(method=method.name, params={**params, field.name: long})) is Fault.INVALID_PARAMS


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_an_ordinary_client_never_gets_what_only_admins_may_see(method):
    request = Request(7, method, {})
    result = {field.name: VALUES[field.kind] for field in method.result}
    plain = json.loads(encode_result(request, result, admin=False))
    assert plain["id"] == 7
    assert set(plain["result"]) == {field.name for field in method.result if not field.admin}
    assert set(json.loads(encode_result(request, result, admin=True))["result"]) == set(result)
    with pytest.raises(AssertionError):
        encode_result(request, {**result, "embedding": [1.0]}, admin=True)


@pytest.mark.parametrize("notification", NOTIFICATIONS, ids=lambda notification: notification.name)
def test_nor_in_notifications(notification):
    params = {field.name: VALUES[field.kind] for field in notification.params}
    plain = json.loads(encode_notification(notification.name, params, admin=False))
    assert set(plain["params"]) == {field.name for field in notification.params if not field.admin}


def test_no_ordinary_client_is_told_a_score_a_reason_or_an_outcome():
    secret = {"detail", "failures", "inconclusives", "pin_tries", "similar", "device", "models"}
    described = [field for method in METHODS for field in method.result]
    described += [field for notification in NOTIFICATIONS for field in notification.params]
    assert {field.name for field in described if field.admin} >= secret
    assert not [field.name for field in described if field.name in secret and not field.admin]
    assert METHOD_OF["metrics"].access == METHOD_OF["reload"].access == METHOD_OF["lockout.reset"].access
    assert METHOD_OF["metrics"].access == (Access.ADMIN,)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", Fault.PARSE),
        (b"{", Fault.PARSE),
        (b"\xff\xfe", Fault.PARSE),
        (b"[]", Fault.PARSE),
        (b"1", Fault.PARSE),
        (b"[" * 60_000, Fault.PARSE),
        (b'{"a":' * 10_000, Fault.PARSE),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"status"}', Fault.PARSE),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"status"}', Fault.PARSE),
        (b'{"jsonrpc":"2.0","id":1,"method":"status","params":{"a":Infinity}}', Fault.PARSE),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"status"}', Fault.PARSE),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"status"}', Fault.PARSE),
        (b" " * (wire.MAX_MESSAGE + 1), Fault.PARSE),
        (b'[{"jsonrpc":"2.0","id":1,"method":"status"}]', Fault.PARSE),
        (b'{"jsonrpc":"2.0","method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":null,"method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":[],"method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"status"}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"status","auth":1}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"status","params":[1]}', Fault.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"__class__"}', Fault.UNKNOWN_METHOD),
        (b'{"jsonrpc":"2.0","id":1,"method":"cancel","params":{"request":""}}', Fault.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":true}}', Fault.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":-1}}', Fault.INVALID_PARAMS),
    ],
)
def test_what_is_no_request_is_refused_with_its_fault(data, fault):
    assert fault_of(data) is fault


@pytest.mark.parametrize("text", ["AA==", "AB", "A", "A+/A", "AA\n", "é", "AA AA"])
def test_bytes_have_exactly_one_form(text):
    with pytest.raises(ValueError, match="base64url"):
        wire.from_base64(text)


@given(st.binary(max_size=200))
def test_bytes_come_back(data):
    assert wire.from_base64(wire.to_base64(data)) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers() | st.text(max_size=70) | json_values,
        "method": st.sampled_from(sorted(METHOD_OF)) | json_values,
        "params": json_values
        | st.dictionaries(
            st.sampled_from(sorted({f.name for m in METHODS for f in m.params})), json_values, max_size=6
        ),
    },
)


@given(st.binary(max_size=300) | messages.map(lambda message: json.dumps(message).encode()))
def test_any_line_is_a_request_or_one_answerable_error(data):
    try:
        request = parse_request(data)
    except RequestError as error:
        answer = json.loads(encode_error(error))
        assert answer["error"]["code"] == error.fault.code and answer["id"] == error.request_id
    else:
        assert request.method.name in METHOD_OF


def test_error_codes_are_unique():
    codes = [fault.code for fault in Fault]
    assert len(set(codes)) == len(codes)
    assert all(fault.meaning for fault in Fault)


def test_the_documentation_is_current():
    assert DOCS.read_text("utf-8") == document(), "run: python -m voiceid.service.documentation > docs/service.md"
