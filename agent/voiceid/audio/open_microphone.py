"""One open microphone as a stream of mono 16 kHz audio."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType

import numpy as np
import soxr

from voiceid.audio.block_queue import BlockQueue
from voiceid.audio.clock import Clock, SystemClock
from voiceid.audio.device import Backend, Microphone
from voiceid.errors import DeviceLostError
from voiceid.types import SAMPLE_RATE, Samples


class OpenMicrophone:
    """Reads one device until it is lost; a context manager that releases it."""

    def __init__(
        self,
        backend: Backend,
        microphone: Microphone,
        *,
        block: float,
        queue: float = 5.0,
        lost_after: float = 5.0,
        condition: threading.Condition | None = None,
        clock: Clock | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        """Open ``microphone`` in blocks of ``block`` seconds; ``queue`` seconds may wait for the reader.

        ``condition`` wakes :meth:`read` early; for ``counts`` see :class:`~voiceid.audio.block_queue.BlockQueue`.

        Raises:
            AudioDeviceError: see :meth:`voiceid.audio.device.Backend.open`.
        """
        self.microphone = microphone
        self._clock = clock or SystemClock()
        self._lost_after = lost_after
        self._queue = BlockQueue(
            max(1, round(queue / block)),
            condition or threading.Condition(),
            self._clock,
            Counter() if counts is None else counts,
        )
        self._stream = backend.open(microphone, self._queue.put, block=block)
        rate = self._stream.rate
        self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32") if rate != SAMPLE_RATE else None
        self._waited = 0.0

    def __enter__(self) -> OpenMicrophone:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()

    def read(self, seconds: float) -> tuple[Samples, bool] | None:
        """The next block, down-mixed, float32 (n,) at 16 kHz, and whether audio is missing before it.

        None if it was woken, or if none came within ``seconds``.

        Raises:
            DeviceLostError: the stream has ended, or nothing has come in ``lost_after`` seconds of waiting.
        """
        start = self._clock.monotonic()
        received = self._queue.get(seconds)
        if received is None:
            self._waited += self._clock.monotonic() - start
            if not self._stream.active or self._waited >= self._lost_after:
                raise DeviceLostError(
                    f"{self.microphone.name!r} delivers no audio; was it unplugged or suspended, or did its sound "
                    "server end?"
                )
            return None
        self._waited = 0.0
        block, gap = received
        mono = block.mean(axis=1, dtype=np.float32)
        return (mono if self._resampler is None else self._resampler.resample_chunk(mono)), gap
