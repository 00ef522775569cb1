"""The bounded queue between the sound system's thread and the reader."""

from __future__ import annotations

import threading
from collections import Counter, deque

from voiceid.audio.clock import Clock
from voiceid.types import Samples


class BlockQueue:
    """Blocks in their order; when full, the oldest go, so that a slow reader never stops the sound system's thread."""

    def __init__(self, capacity: int, condition: threading.Condition, clock: Clock, counts: Counter[str]) -> None:
        """``capacity`` in blocks; ``condition`` guards the queue and is notified of every block.

        ``counts`` gains ``dropped``, sample frames thrown away, and ``overflows``, blocks before which the sound system
        lost audio.
        """
        self._capacity, self._condition, self._clock, self._counts = capacity, condition, clock, counts
        self._blocks: deque[tuple[Samples, bool]] = deque()

    def put(self, block: Samples, lost: bool) -> None:
        """Append ``block`` (n, channels); ``lost`` if audio is missing before it. Never blocks."""
        with self._condition:
            self._counts["overflows"] += lost
            self._blocks.append((block, lost))
            if len(self._blocks) > self._capacity:
                self._drop_oldest()
            self._condition.notify_all()

    def get(self, seconds: float) -> tuple[Samples, bool] | None:
        """The oldest block and whether audio is missing before it; None if there is none within ``seconds``."""
        with self._condition:
            if not self._blocks:
                self._clock.wait(self._condition, seconds)
            return self._blocks.popleft() if self._blocks else None

    def _drop_oldest(self) -> None:
        oldest, _ = self._blocks.popleft()
        self._counts["dropped"] += len(oldest)
        following, _ = self._blocks[0]
        self._blocks[0] = following, True
