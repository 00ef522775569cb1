"""What one client may use of the daemon."""

from __future__ import annotations

import asyncio
import time

MAX_UNDER_WAY = 8
"""Requests of one connection at a time."""
MAX_QUEUED = 256 * 1024
"""Bytes that may wait for a client that does not read; beyond, the connection is cut."""
PAUSE_READING = 64 * 1024
"""Bytes that wait for a client above which nothing more is read from it."""
FIRST_MESSAGE = 30.0
"""Seconds within which a client must say something."""
REST_OF_MESSAGE = 10.0
"""Seconds from the first byte of a message to its last."""
WRITE = 10.0
"""Seconds within which a client must take what is written."""
RATE, BURST = 50.0, 100.0
"""Messages a second, and at once."""
MAX_FAULTY = 5
"""Messages that are no requests, after which the connection is cut."""
RESERVED_FOR_ADMINS = 8
"""Connections that only admins get."""


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` a second after that, by making the taker wait."""

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, time.monotonic()

    async def take(self) -> None:
        """Wait until one more is allowed."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._rate)
