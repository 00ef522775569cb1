"""The last seconds of audio, in memory that never grows."""

from __future__ import annotations

import numpy as np

from voiceid.types import SAMPLE_RATE, Samples


class RingBuffer:
    """Keeps the last ``seconds`` of 16 kHz audio."""

    def __init__(self, seconds: float) -> None:
        self._buffer = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
        self._end = 0
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def push(self, samples: Samples) -> None:
        """Append ``samples`` (n,), forgetting the oldest."""
        size = len(self._buffer)
        samples = samples[-size:]
        first = min(len(samples), size - self._end)
        self._buffer[self._end : self._end + first] = samples[:first]
        self._buffer[: len(samples) - first] = samples[first:]
        self._end = (self._end + len(samples)) % size
        self._held = min(size, self._held + len(samples))

    def last(self, seconds: float) -> Samples:
        """A copy of the last ``seconds``, or of all there is if that is less."""
        count = min(self._held, round(seconds * SAMPLE_RATE))
        return np.roll(self._buffer, -self._end)[len(self._buffer) - count :]

    def clear(self) -> None:
        """Forget everything; the samples are overwritten."""
        self._buffer[:] = 0
        self._held = 0
