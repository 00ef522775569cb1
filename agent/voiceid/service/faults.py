"""From the package's errors to those of the protocol."""

from __future__ import annotations

from voiceid.errors import (
    AudioDeviceError,
    AudioError,
    ClockError,
    CredentialError,
    EnrolmentError,
    EnvelopeError,
    ModelError,
    PinError,
    SettingsError,
    UnknownUserError,
    VaultError,
    VoiceIdError,
)
from voiceid.service.permissions import not_permitted
from voiceid.service.pin import PresentPinError
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault

_FAULTS: dict[type[BaseException], Fault] = {
    AudioDeviceError: Fault.MICROPHONE,
    AudioError: Fault.AUDIO,
    ClockError: Fault.CLOCK,
    CredentialError: Fault.CREDENTIAL,
    UnknownUserError: Fault.UNKNOWN_USER,
    EnrolmentError: Fault.ENROLMENT,
    EnvelopeError: Fault.INVALID_PARAMS,
    ModelError: Fault.MODEL,
    PresentPinError: Fault.PRESENT_PIN,
    PinError: Fault.PIN,
    SettingsError: Fault.SETTINGS,
    VaultError: Fault.VAULT,
}

_PLAIN = frozenset({Fault.MICROPHONE, Fault.MODEL, Fault.SETTINGS, Fault.VAULT})
"""Their messages name paths, devices and users: only for admins."""


def request_error(error: VoiceIdError, method: str, *, admin: bool) -> RequestError:
    """What a client hears of ``error``."""
    if isinstance(error, RequestError):
        return error
    fault = next((_FAULTS[cls] for cls in type(error).__mro__ if cls in _FAULTS), Fault.INTERNAL)
    if fault is Fault.UNKNOWN_USER and not admin:
        return not_permitted(method)
    return RequestError(fault, fault.meaning if fault in _PLAIN and not admin else str(error))
