"""Time for what waits: real, or a test's own."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where :class:`~voiceid.audio.capture.Capture` reads time and waits."""

    def monotonic(self) -> float:
        """Seconds, standing still while the machine sleeps where the system has such a clock."""

    def boottime(self) -> float:
        """Seconds, counting on while the machine sleeps where the system has such a clock."""

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        """Wait on ``condition``, which the caller holds, until it is notified or ``seconds`` have passed."""


class SystemClock:
    """The machine's clocks; none of them can be set."""

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if clock is None else time.clock_gettime(clock)

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        condition.wait(seconds)
