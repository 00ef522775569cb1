"""What a file seems to be that was given in the place of another: envelope, registration, backup, card and so on."""

from __future__ import annotations

import json
import re
from enum import StrEnum, unique


@unique
class FileKind(StrEnum):
    """The kinds of file that are easily mixed up, in words."""

    RECORDING = "a recording"
    PICTURE = "a picture"
    ENVELOPE = "an envelope"
    REGISTRATION = "a registration, as 'voiceid credentials register' writes it"
    KEPT_REGISTRATION = "a registration, as a service keeps it"
    UNITS = "the JSON of 'voiceid units --json'"
    DECISION = "the JSON of a decision"
    REPORT = "a report of 'voiceid benchmark --json'"
    BACKUP = "a backup of enrolments"
    VAULT = "a part of a vault"
    CARD = "a model card"
    MODEL = "a model; its card is the .json beside it"
    GRAMMAR = "a grammar"
    CONFIGURATION = "a configuration"


_STARTS = {
    b"RIFF": FileKind.RECORDING,
    b"fLaC": FileKind.RECORDING,
    b"OggS": FileKind.RECORDING,
    b"ID3": FileKind.RECORDING,
    b"\xff\xfb": FileKind.RECORDING,
    b"\x89PNG": FileKind.PICTURE,
    b"%PDF": FileKind.PICTURE,
    b"<svg": FileKind.PICTURE,
    b"<?xml": FileKind.PICTURE,
    b"VIDR": FileKind.VAULT,
    b"VIDV": FileKind.VAULT,
}
_KEYS = {
    FileKind.UNITS: {"codebook", "codebook_hash", "merged"},
    FileKind.KEPT_REGISTRATION: {"rp_id", "credential_id", "public_key", "counter"},
    FileKind.REPORT: {"schema", "runs", "cold_start"},
    FileKind.CARD: {"schema", "role", "sha256"},
    FileKind.DECISION: {"outcome", "reasons"},
}
"""Keys of a JSON object that only one kind has together."""
_BACKUP = b"voiceid-backup"
_ENVELOPE = (b"\x69assertion", b"\x6acredential")
"""Two of the keys as CBOR writes them."""
_CBOR_MAP = range(0xA0, 0xC0)
_MODEL = b"\x08\x12"
"""Before and after the version of its format."""
_HEAD = 128
"""Bytes in which a backup tells what it is."""
_SECTIONS = "quality|enrolment|identification|models|capture|activation|paths|service"


def kind_of(data: bytes) -> FileKind | None:
    """What ``data``, the content of a file, seems to be; None where nothing is recognised. Never raises."""
    for start, kind in _STARTS.items():
        if data.startswith(start):
            return kind
    if _BACKUP in data[:_HEAD]:
        return FileKind.BACKUP
    if data[:1] and data[0] in _CBOR_MAP and all(key in data for key in _ENVELOPE):
        return FileKind.ENVELOPE
    if data[:1] == _MODEL[:1] and data[2:3] == _MODEL[1:]:
        return FileKind.MODEL
    if data.lstrip()[:1] == b"{":
        return _kind_of_json(data)
    if re.search(rb"^\s*\[\s*(intents|phrases|slots)\b", data, re.MULTILINE):
        return FileKind.GRAMMAR
    if re.search(rf"^\s*\[\s*({_SECTIONS})\s*\]".encode(), data, re.MULTILINE):
        return FileKind.CONFIGURATION
    return None


def this_is(data: bytes, *wanted: FileKind) -> str:
    """The end of a message on a file that is not what it should be: what it is instead, where that is known."""
    kind = kind_of(data)
    return "" if kind is None or kind in wanted else f"; this is {kind}"


def _kind_of_json(data: bytes) -> FileKind | None:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return None
    inner = table.get("registration", table)
    response = inner.get("response") if isinstance(inner, dict) else None
    if isinstance(response, dict) and "attestationObject" in response:
        return FileKind.REGISTRATION
    return next((kind for kind, keys in _KEYS.items() if keys <= set(table)), None)
