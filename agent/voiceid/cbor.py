"""Canonical CBOR (CTAP2 form, RFC 8949 section 4.2) of the few types that voiceid stores and sends.

Encoding is fido2's. Decoding is strict: exactly one encoding of a value is accepted, so that equal values have equal
bytes and a signature over the bytes is a signature over the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fido2.cbor

from voiceid.errors import VoiceIdError

MAX_DEPTH = 4
"""Levels of nested maps; nothing here needs more."""

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_FALSE, _TRUE = 20, 21


def encode(value: Mapping[str, Any]) -> bytes:
    """The canonical encoding of a map of text keys to int, bool, bytes, str, or such maps."""
    return fido2.cbor.encode(value)


def decode(data: bytes, *, where: str, error: type[VoiceIdError]) -> dict[str, Any]:
    """Decode one canonical map; the inverse of :func:`encode`.

    Raises:
        error: not CBOR, truncated, not canonical, leftover bytes, duplicate or unordered keys, or a type voiceid
            does not use; the message starts with ``where``.
    """
    try:
        value, end = _item(data, 0, 0)
        if end != len(data):
            raise ValueError(f"{len(data) - end} bytes left over after the end")
        if not isinstance(value, dict):
            raise ValueError("not a map")
    except ValueError as problem:
        raise error(f"{where}: {problem}") from None
    return value


def check_fields(
    table: Mapping[str, Any],
    required: Mapping[str, type],
    optional: Mapping[str, type] | None = None,
    *,
    where: str,
    error: type[VoiceIdError],
) -> None:
    """Check that ``table`` has exactly the named keys, each of its exact type (a bool is no int).

    Raises:
        error: a key is missing, unknown, or of another type.
    """
    known = {**required, **(optional or {})}
    for key in table:
        if key not in known:
            raise error(f"{where}: unknown key {key[:40]!r}")
    for key in required:
        if key not in table:
            raise error(f"{where}: missing key {key!r}")
    for key, value in table.items():
        if type(value) is not known[key]:
            raise error(f"{where}: {key} is {type(value).__name__}, expected {known[key].__name__}")


def _item(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    major, value, at = _head(data, at)
    if major == _UNSIGNED:
        return value, at
    if major == _NEGATIVE:
        return -1 - value, at
    if major in (_BYTES, _TEXT):
        end = at + value
        if end > len(data):
            raise ValueError(f"truncated: a string of {value} bytes ends after the data")
        raw = data[at:end]
        return (raw if major == _BYTES else _text(raw)), end
    if major == _MAP:
        if depth >= MAX_DEPTH:
            raise ValueError(f"maps nested deeper than {MAX_DEPTH}")
        return _map(data, at, value, depth)
    if major == _SIMPLE and value in (_FALSE, _TRUE):
        return value == _TRUE, at
    raise ValueError(f"CBOR major type {major} with value {value} is not used here")


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    if at >= len(data):
        raise ValueError("truncated")
    major, info = data[at] >> 5, data[at] & 0x1F
    at += 1
    if info < 24:
        return major, info, at
    if info > 27:
        raise ValueError("indefinite or reserved length")
    size = 1 << (info - 24)
    if at + size > len(data):
        raise ValueError("truncated")
    value = int.from_bytes(data[at : at + size], "big")
    least = 24 if size == 1 else 1 << (4 * size)
    if value < least or major == _SIMPLE:
        raise ValueError("not canonical: a number in more bytes than it needs")
    return major, value, at + size


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("text that is not UTF-8") from None


def _map(data: bytes, at: int, count: int, depth: int) -> tuple[dict[str, Any], int]:
    entries: dict[str, Any] = {}
    previous = b""
    for _ in range(count):
        start = at
        key, at = _item(data, at, MAX_DEPTH)
        if not isinstance(key, str):
            raise ValueError("a map key that is not text")
        encoded = data[start:at]
        if (len(encoded), encoded) <= (len(previous), previous):
            raise ValueError("not canonical: map keys repeated or out of order")
        previous = encoded
        entries[key], at = _item(data, at, depth + 1)
    return entries, at
