"""The clock of the device, which may be wrong, and moments as people read them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from voiceid.errors import ClockError

END = 253_402_300_800
"""Unix seconds of the year 10000: no calendar here goes further."""


def unix_milliseconds() -> int:
    """Now, by the device's clock.

    A Pi without a clock of its own may be years behind; only what is no date at all is refused.

    Raises:
        ClockError: before 1970 or after 9999.
    """
    moment = time.time_ns() // 1_000_000
    if not 0 <= moment < END * 1000:
        raise ClockError(
            f"the clock says {show_moment(moment // 1000)}, which is no date to store or sign; "
            "set it (timedatectl set-time, or set-ntp true) and try again"
        )
    return moment


def unix_seconds() -> int:
    """As :func:`unix_milliseconds`, in whole seconds."""
    return unix_milliseconds() // 1000


def show_moment(seconds: int) -> str:
    """``seconds`` since 1970 as date and time (UTC), whatever number it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"no date (Unix time {seconds})"
