"""Time per pipeline stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Collects wall-clock milliseconds by stage; a stage entered twice adds up."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + (time.perf_counter() - start) * 1e3

    def timings(self) -> dict[str, float]:
        """Milliseconds by stage, with ``total`` since the watch was made."""
        return {**self._stages, "total": (time.perf_counter() - self._start) * 1e3}
