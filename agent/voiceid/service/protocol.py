"""JSON-RPC 2.0 as the daemon speaks it: strict parsing of requests, and answers that say no more than they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voiceid.errors import ServiceError
from voiceid.service import wire
from voiceid.service.methods import METHOD_OF, NOTIFICATION_OF
from voiceid.service.schema import Fault, Field, Kind, Method

MAX_ID = 64
"""Characters of a request id."""

RequestId = int | str


class RequestError(ServiceError):
    """A request that failed. ``request_id`` is None where none could be read."""

    def __init__(self, fault: Fault, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose parameters fit its method; base64url is decoded in ``params``."""

    request_id: RequestId
    method: Method
    params: dict[str, Any]


def parse_request(line: bytes) -> Request:
    """Parse one line from a client.

    Raises:
        RequestError: anything that the protocol does not allow.
    """
    if len(line) > wire.MAX_MESSAGE:
        raise RequestError(Fault.PARSE, f"a message has at most {wire.MAX_MESSAGE} bytes, this one has {len(line)}")
    try:
        message = wire.decode(line)
    except ValueError as error:
        raise RequestError(Fault.PARSE, f"not a message: {error}") from None
    request_id = _request_id(message.get("id"))
    if message.get("jsonrpc") != wire.VERSION or set(message) - {"jsonrpc", "id", "method", "params"}:
        raise RequestError(Fault.INVALID_REQUEST, "expected jsonrpc '2.0', id, method and params", request_id)
    name, params = message.get("method"), message.get("params", {})
    if not isinstance(name, str) or not isinstance(params, dict):
        raise RequestError(Fault.INVALID_REQUEST, "method is a string, params an object", request_id)
    method = METHOD_OF.get(name)
    if method is None:
        raise RequestError(Fault.UNKNOWN_METHOD, f"no method {name[:40]!r}", request_id)
    try:
        return Request(request_id, method, _checked(params, method.params))
    except ValueError as error:
        raise RequestError(Fault.INVALID_PARAMS, f"{method.name}: {error}", request_id) from None


def encode_result(request: Request, result: Mapping[str, Any], *, admin: bool) -> bytes:
    """The answer to ``request``; what only admins may see is left out for others."""
    allowed = _allowed(result, request.method.result, admin=admin)
    return wire.encode({"jsonrpc": wire.VERSION, "id": request.request_id, "result": allowed})


def encode_error(error: RequestError) -> bytes:
    """The answer to a request that failed."""
    detail = {"code": error.fault.code, "message": str(error), "data": {"name": error.fault.value}}
    return wire.encode({"jsonrpc": wire.VERSION, "id": error.request_id, "error": detail})


def encode_notification(name: str, params: Mapping[str, Any], *, admin: bool) -> bytes:
    """The notification ``name``."""
    allowed = _allowed(params, NOTIFICATION_OF[name].params, admin=admin)
    return wire.encode({"jsonrpc": wire.VERSION, "method": name, "params": allowed})


def _request_id(value: Any) -> RequestId:
    if isinstance(value, str) and 1 <= len(value) <= MAX_ID:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return value
    raise RequestError(Fault.INVALID_REQUEST, f"id is a string of 1 to {MAX_ID} characters or an integer")


def _checked(params: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    known = {field.name: field for field in fields}
    if unknown := sorted(set(params) - set(known)):
        raise ValueError(f"unknown parameter {unknown[0][:40]!r}")
    for field in fields:
        if not field.optional and field.name not in params:
            raise ValueError(f"parameter {field.name!r} is missing")
    return {name: _value(known[name], value) for name, value in params.items()}


def _value(field: Field, value: Any) -> Any:
    article = "an" if field.kind.value[0] in "aeio" else "a"
    wrong = ValueError(f"{field.name} must be {article} {field.kind.value}")
    if field.kind is Kind.BOOLEAN:
        if not isinstance(value, bool):
            raise wrong
        return value
    if field.kind is Kind.INTEGER:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong
        if not field.least <= value <= field.most:
            raise ValueError(f"{field.name} is {value}; it must lie between {field.least} and {field.most}")
        return value
    if not isinstance(value, str):
        raise wrong
    if field.kind is Kind.TEXT:
        return _within(field, value, len(value), " characters")
    try:
        data = wire.from_base64(value)
    except ValueError as error:
        raise ValueError(f"{field.name}: {error}") from None
    return _within(field, data, len(data), " bytes")


def _within(field: Field, value: Any, measure: int, unit: str) -> Any:
    if not field.least <= measure <= field.most:
        raise ValueError(f"{field.name} must have {field.least} to {field.most}{unit}")
    return value


def _allowed(values: Mapping[str, Any], fields: tuple[Field, ...], *, admin: bool) -> dict[str, Any]:
    names = {field.name for field in fields}
    required = {field.name for field in fields if not field.optional}
    if set(values) - names or required - set(values):
        raise AssertionError(f"an answer with {sorted(values)} where {sorted(names)} is described")
    return {field.name: values[field.name] for field in fields if field.name in values and (admin or not field.admin)}
