"""A clock that nobody can set: time since the machine started, suspensions included, and which start that was."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Moment:
    """Milliseconds since the start of the machine that ``boot`` names."""

    boot: str
    milliseconds: int

    def seconds_since(self, earlier: Moment) -> float | None:
        """Seconds from ``earlier`` to this; None where they are of different starts, and so cannot be compared."""
        passed = (self.milliseconds - earlier.milliseconds) / 1000
        return passed if self.boot == earlier.boot and passed >= 0 else None


class Clock(Protocol):
    """What tells :class:`Moment`."""

    def now(self) -> Moment: ...


class BootClock:
    """The system's clock. Where its start has no id, this process counts as one: delays then start again with it."""

    def __init__(self) -> None:
        self._boot = _boot_id() or secrets.token_hex(16)

    def now(self) -> Moment:
        kind = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on macOS CLOCK_MONOTONIC counts sleep
        return Moment(self._boot, time.clock_gettime_ns(kind) // 1_000_000)


def _boot_id() -> str:
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, subprocess.SubprocessError):
        return ""
