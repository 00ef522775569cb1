"""The line parser of the daemon's protocol, the rules of access, and the answer to a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.fuzz.target import Target
from voiceid.errors import VoiceIdError
from voiceid.service import wire
from voiceid.service.faults import request_error
from voiceid.service.methods import METHODS
from voiceid.service.peers import Peer
from voiceid.service.permissions import Permissions
from voiceid.service.protocol import RequestError, encode_error, parse_request
from voiceid.service.schema import Field, Kind, Method
from voiceid.settings import ServiceSettings

WORDS = (
    *(method.name for method in METHODS),
    *sorted({field.name for method in METHODS for field in method.params}),
    *("jsonrpc", "2.0", "params", "true", "null", "1e9", "\\ud800", "shop.example.org"),
)


def request(method: Method, request_id: int = 1) -> bytes:
    """A valid request for ``method``, every parameter given."""
    params = {field.name: _value(field) for field in method.params}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method.name, "params": params}).encode()


def _value(field: Field) -> Any:
    if field.kind is Kind.BYTES:
        return wire.to_base64(bytes(max(16, field.least)))
    if field.kind is Kind.TEXT:
        return "shop.example.org"
    return False if field.kind is Kind.BOOLEAN else max(1, field.least)


def make(folder: Path) -> Target:
    permissions = Permissions(ServiceSettings(relying_parties={"shop.example.org": [1000]}))
    peers = (Peer(0, 0, 1), Peer(1000, 1000, 1), Peer(4_000_123, 1, 1))

    def run(data: bytes) -> None:
        try:
            parsed = parse_request(data)
        except RequestError as error:
            wire.decode(encode_error(error))
            return
        for peer in peers:
            try:
                permissions.check(peer, parsed.method, parsed.params, 1000)
                permissions.check(peer, parsed.method, parsed.params, None)
            except VoiceIdError as error:
                refusal = request_error(error, parsed.method.name, admin=permissions.is_admin(peer))
                wire.decode(encode_error(RequestError(refusal.fault, str(refusal), parsed.request_id)))

    return Target(run, tuple(map(request, METHODS)), 4096, WORDS, json=True)
