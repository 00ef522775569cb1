"""The states of the microphone, their changes, and what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class CaptureState(StrEnum):
    """The closed set of states; every one but ``closed`` recovers by itself."""

    STARTING = "starting"
    """Not opened yet."""
    LISTENING = "listening"
    """Audio comes."""
    NO_DEVICE = "no_device"
    """There is no microphone, or none of the wanted name."""
    BUSY = "busy"
    """Another program holds it."""
    LOST = "lost"
    """It was there and is gone, or delivers no more."""
    SILENT = "silent"
    """It delivers digital silence: muted, not permitted, or stale after a suspend."""
    DENIED = "denied"
    """This process may not use it."""
    UNAVAILABLE = "unavailable"
    """No sound system, or one that refuses for another reason."""
    SUSPENDED = "suspended"
    """Released for the machine's sleep, or on request."""
    CLOSED = "closed"
    """For good."""


WELL = frozenset({CaptureState.STARTING, CaptureState.LISTENING, CaptureState.SUSPENDED, "file"})
"""States, as the daemon tells them, in which there is nothing to do; ``file`` is that of a recording in its place."""
MICROPHONE_PROBLEM = "microphone: "
"""How the problem begins that the daemon tells of any other state."""


@dataclass(frozen=True, slots=True)
class CaptureEvent:
    """One change of state; ``detail`` says in words what happened and what to do, ``device`` is the name if known."""

    state: CaptureState
    previous: CaptureState
    device: str | None
    detail: str
    at: float
    """Seconds on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class CaptureCounters:
    """Totals since the capture was made."""

    frames: int
    """Frames of 16 kHz audio that were delivered."""
    dropped: int
    """Sample frames, at the device's rate, that were thrown away because the reader was too slow."""
    overflows: int
    """Times the sound system lost audio before it reached this process."""
    opens: int
    """Times a device was opened."""
    attempts: int
    """Times a device was tried, opened or not."""
    entered: Mapping[CaptureState, int]
    """Times each state was entered."""
