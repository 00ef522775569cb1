"""Growing pauses between attempts."""

from __future__ import annotations


class Pauses:
    """``first`` seconds, then twice as long each time, up to ``longest``."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def grow(self) -> float:
        """The pause to make now; the next will be longer."""
        pause = self._next
        self._next = min(self._longest, 2 * self._next)
        return pause

    def reset(self) -> None:
        """Begin anew."""
        self._next = self._first
