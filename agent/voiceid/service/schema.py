"""How the protocol is described: fields, methods, notifications and errors as frozen values.

:mod:`voiceid.service.methods` holds the description itself; the server checks every message against it, and
``docs/service.md`` is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Kind(StrEnum):
    """The JSON type of a field, and how it is checked."""

    TEXT = "string"
    BYTES = "base64url"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXTS = "array of strings"
    OBJECT = "object"
    OBJECTS = "array of objects"


@unique
class Access(StrEnum):
    """Who may call a method. Root, the daemon's own uid and ``[service] admins`` may call all."""

    ANYONE = "anyone"
    OWNER = "owner"
    CREATOR = "creator"
    GRANTED = "granted"
    ADMIN = "admin"

    @property
    def meaning(self) -> str:
        return {
            Access.ANYONE: "whoever may open the socket",
            Access.OWNER: "the uid that owns the enrolment of `user`",
            Access.CREATOR: "the owner; without `replace` and `renew` everybody, unless `user` is the login name of "
            "another uid",
            Access.GRANTED: "a uid that `[service.relying_parties]` lists for `relying_party`",
            Access.ADMIN: "root, the daemon's uid, and `[service] admins`",
        }[self]


@dataclass(frozen=True, slots=True)
class Field:
    """One member of ``params``, of a result or of a notification.

    ``least`` and ``most`` bound characters of text, bytes of decoded base64url, or the value of an integer.
    """

    name: str
    kind: Kind
    text: str
    optional: bool = False
    least: int = 0
    most: int = 0
    admin: bool = False
    """Only admins see it; for everybody else the server takes it out."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method: every rule of ``access`` must hold."""

    name: str
    text: str
    access: tuple[Access, ...]
    params: tuple[Field, ...] = ()
    result: tuple[Field, ...] = ()
    notifications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notification:
    """A message from the daemon that answers no request."""

    name: str
    text: str
    params: tuple[Field, ...]


@unique
class Fault(StrEnum):
    """Why a request failed: the name in ``error.data.name``; :attr:`code` is ``error.code``."""

    PARSE = "parse"
    INVALID_REQUEST = "invalid_request"
    UNKNOWN_METHOD = "unknown_method"
    INVALID_PARAMS = "invalid_params"
    INTERNAL = "internal"
    NOT_PERMITTED = "not_permitted"
    BUSY = "busy"
    CANCELLED = "cancelled"
    NO_SPEECH = "no_speech"
    MICROPHONE = "microphone"
    AUDIO = "audio"
    CREDENTIAL = "credential"
    ENROLMENT = "enrolment"
    UNKNOWN_USER = "unknown_user"
    PIN = "pin"
    PRESENT_PIN = "present_pin"
    VAULT = "vault"
    MODEL = "model"
    SETTINGS = "settings"
    CLOCK = "clock"
    VERSION = "version"
    TOO_MANY = "too_many"
    STOPPING = "stopping"
    UNVERIFIED = "unverified"

    @property
    def code(self) -> int:
        return _FAULTS[self][0]

    @property
    def meaning(self) -> str:
        return _FAULTS[self][1]


_FAULTS: dict[Fault, tuple[int, str]] = {
    Fault.PARSE: (-32700, "not one JSON object in UTF-8 of at most 64 KiB; the connection is closed"),
    Fault.INVALID_REQUEST: (-32600, "no JSON-RPC 2.0 request with an id; batches are not taken"),
    Fault.UNKNOWN_METHOD: (-32601, "no such method"),
    Fault.INVALID_PARAMS: (-32602, "a parameter is missing, unknown, or has an impossible value"),
    Fault.INTERNAL: (-32603, "a fault in the daemon; its log has the details"),
    Fault.NOT_PERMITTED: (1, "not permitted to this uid, or no such user: an ordinary client is not told which"),
    Fault.BUSY: (2, "another client has the capture session; try again later"),
    Fault.CANCELLED: (3, "cancelled by the client"),
    Fault.NO_SPEECH: (4, "nobody spoke in time"),
    Fault.MICROPHONE: (5, "no usable microphone now; fall back to another factor"),
    Fault.AUDIO: (6, "the audio that was handed over cannot be used"),
    Fault.CREDENTIAL: (7, "the credential is unknown, revoked or belongs elsewhere"),
    Fault.ENROLMENT: (8, "the enrolment is incomplete or not of one person, or the name is taken or cannot be used"),
    Fault.UNKNOWN_USER: (9, "no such user (only admins are told)"),
    Fault.PIN: (10, "no PIN can be set or cleared while locked, and a wrong present PIN changes nothing"),
    Fault.PRESENT_PIN: (11, "the present PIN is needed in `current`"),
    Fault.VAULT: (12, "the vault cannot be read or written"),
    Fault.MODEL: (13, "a model cannot be used"),
    Fault.SETTINGS: (14, "the configuration is wrong"),
    Fault.CLOCK: (15, "the device's clock shows no date that could be stored or signed"),
    Fault.VERSION: (16, "the daemon speaks another version of the protocol"),
    Fault.TOO_MANY: (17, "too many connections, or too many requests under way"),
    Fault.STOPPING: (18, "the daemon is stopping"),
    Fault.UNVERIFIED: (19, "nothing shows that this is the person of the enrolment: a PIN or an admin has to"),
}
