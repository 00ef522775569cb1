"""How often a uid may hit upon the name of somebody else's enrolment."""

from __future__ import annotations

import time
from collections import deque

MAX_GUESSES = 3
PERIOD = 3600.0
"""Seconds."""


class Guesses:
    """Counts by uid, in memory: a restart of the daemon is an admin's."""

    def __init__(self) -> None:
        self._moments: dict[int, deque[float]] = {}

    def count(self, uid: int) -> None:
        """``uid`` hit upon one more."""
        self._moments.setdefault(uid, deque(maxlen=MAX_GUESSES)).append(time.monotonic())

    def may_go_on(self, uid: int) -> bool:
        """Whether ``uid`` had fewer than it may within the period."""
        since = time.monotonic() - PERIOD
        return sum(moment > since for moment in self._moments.get(uid, ())) < MAX_GUESSES
