"""What a microphone is, and what a sound system must offer to capture from it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from voiceid.errors import NoDeviceError
from voiceid.types import Samples

Receive = Callable[[Samples, bool], None]
"""Called on the sound system's thread with a block float32 (n, channels), and whether audio was lost before it."""


@dataclass(frozen=True, slots=True)
class Microphone:
    """An input device as the sound system names it."""

    index: int
    name: str
    channels: int
    rate: int
    """The device's own sample rate (Hz)."""
    default: bool


class InputStream(Protocol):
    """An open microphone."""

    rate: int
    channels: int

    @property
    def active(self) -> bool:
        """Whether it still delivers."""

    def close(self) -> None:
        """Stop and release the device; never raises."""


class Backend(Protocol):
    """A sound system."""

    def restart(self) -> None:
        """Look for devices anew; no stream may be open.

        Raises:
            AudioDeviceError: the sound system does not start.
        """

    def microphones(self) -> tuple[Microphone, ...]:
        """All input devices, as of the last start.

        Raises:
            AudioDeviceError: there is no sound system.
            DeviceAccessError: there are devices that this process may not use.
        """

    def open(self, microphone: Microphone, receive: Receive, *, block: float) -> InputStream:
        """Start capturing in blocks of about ``block`` seconds, at whatever rate and channel count the device takes.

        Raises:
            DeviceBusyError, DeviceAccessError, NoDeviceError: as they say.
            AudioDeviceError: it cannot be opened for another reason.
        """


def choose(found: Sequence[Microphone], name: str | None) -> Microphone:
    """The default microphone, or the first whose name contains ``name``; with ``*`` or ``?``, matches it. In any case.

    Indices change when USB devices do, so they choose nothing.

    Raises:
        NoDeviceError: there is none.
    """
    if not found:
        raise NoDeviceError("no microphone found; connect one, or start the sound server, or give an audio file")
    if name is None:
        return next((m for m in found if m.default), found[0])
    pattern = name.casefold().replace("[", "[[]")
    if not any(wild in name for wild in "*?"):
        pattern = f"*{pattern}*"
    for microphone in found:
        if fnmatch.fnmatchcase(microphone.name.casefold(), pattern):
            return microphone
    names = ", ".join(repr(m.name) for m in found)
    raise NoDeviceError(f"no microphone is named like {name!r}; there are: {names}")
