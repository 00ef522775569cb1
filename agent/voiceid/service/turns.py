"""Whose turn it is: a uid that was refused what is scarce goes before those that had it meanwhile."""

from __future__ import annotations

import time

PATIENCE = 3.0
"""Seconds after a refusal within which a uid must ask again to keep its place."""


class Turns:
    """The uids that wait, in the order in which they were first refused. Who does not come back loses the place."""

    def __init__(self) -> None:
        self._waiting: dict[int, float] = {}
        """When each was last refused, in seconds on the monotonic clock."""

    def refuse(self, uid: int) -> None:
        """``uid`` asked and was refused."""
        self._waiting[uid] = time.monotonic()

    def is_next(self, uid: int) -> bool:
        """Whether nobody else goes before ``uid``."""
        since = time.monotonic() - PATIENCE
        self._waiting = {other: asked for other, asked in self._waiting.items() if asked >= since}
        return next(iter(self._waiting), uid) == uid

    def take(self, uid: int) -> None:
        """``uid`` has what it waited for."""
        self._waiting.pop(uid, None)
