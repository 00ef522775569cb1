"""Messages as they travel: one JSON object a line, UTF-8, no larger than the receiver allows."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from voiceid.tables import unique_keys

PROTOCOL = 1
"""Raised when a method changes in a way that an older client would not survive."""

MAX_MESSAGE = 64 * 1024
"""Bytes of one message to the daemon, its newline included."""
MAX_ANSWER = 1024 * 1024
"""Bytes of one message from the daemon, its newline included."""

VERSION = "2.0"
"""Of JSON-RPC."""


def encode(message: dict[str, Any]) -> bytes:
    """``message`` as one line of ASCII; bytes within become base64url.

    Raises:
        ValueError: a number that is not finite.
        TypeError: something that JSON has no form for.
    """
    return json.dumps(message, default=_plain, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The one JSON object in ``line``.

    Raises:
        ValueError: not UTF-8, not JSON, no object, a key twice, NaN, infinity, a lone surrogate, or too deep.
    """
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=unique_keys, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # refuses the lone surrogates that JSON can escape
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def to_base64(data: bytes) -> str:
    """base64url without padding, as WebAuthn writes bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """The inverse of :func:`to_base64`, and of nothing else.

    Raises:
        ValueError: padding, another alphabet, or stray bits at the end.
    """
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64url without padding") from None
    if to_base64(data) != text:
        raise ValueError("not base64url without padding")
    return data


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return to_base64(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
