"""Audio in real time, or faster, through a pipe that stands for the daemon's microphone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import struct
import termios
import threading
import time
from pathlib import Path
from types import TracebackType

import numpy as np

from voiceid.audio.vad import FRAME, FRAME_SECONDS
from voiceid.types import SAMPLE_RATE, Samples

HUSH = 3e-4
"""RMS of the noise between utterances: -70 dBFS, a quiet room; digital silence is none."""
_OPENING = 0.05
"""Seconds between two attempts to find the daemon at the other end."""


class Feeder:
    """Writes noise, and what :meth:`say` is given, as a sound card would: on time, and lost where nobody takes it."""

    def __init__(self, pipe: Path) -> None:
        os.mkfifo(pipe)
        self.dropped = 0
        """Frames that the pipe had no room for: two seconds were waiting in it already."""
        self.frames = 0
        """Frames written."""
        self.speed = 1.0
        """Seconds of audio a second."""
        self.waiting = 0.0
        """Seconds of audio that waited at most for the daemon's reader."""
        self._pipe = pipe
        self._rng = np.random.default_rng(0)
        self._speech: queue.SimpleQueue[Samples] = queue.SimpleQueue()
        self._rest = np.zeros(0, np.float32)
        self._said: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()

    def say(self, samples: Samples) -> None:
        """Speak ``samples`` (n,) at 16 kHz, from the next frame on."""
        self._speech.put(samples)

    def said(self, timeout: float) -> float:
        """When the last sample of the next utterance was spoken, in seconds on the monotonic clock.

        Raises:
            queue.Empty: not within ``timeout`` seconds.
        """
        return self._said.get(timeout=timeout)

    def _run(self) -> None:
        descriptor = self._open()
        if descriptor is None:
            return
        due = time.monotonic()
        try:
            while not self._closed.wait(max(0.0, due - time.monotonic())):
                due += FRAME_SECONDS / self.speed
                self._write(descriptor, self._next())
        except BrokenPipeError:
            pass  # the daemon ended
        finally:
            os.close(descriptor)

    def _open(self) -> int | None:
        while not self._closed.wait(_OPENING):
            with contextlib.suppress(OSError):  # nobody reads yet
                return os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        return None

    def _next(self) -> Samples:
        """One frame: of an utterance if one is being said, else of noise."""
        frame = self._rng.normal(0, HUSH, FRAME).astype(np.float32)
        if not len(self._rest):
            try:
                self._rest = self._speech.get_nowait()
            except queue.Empty:
                return frame
        head, self._rest = self._rest[:FRAME], self._rest[FRAME:]
        frame[: len(head)] += head
        if not len(self._rest):
            self._said.put(time.monotonic())
        return frame

    def _write(self, descriptor: int, frame: Samples) -> None:
        try:
            os.write(descriptor, (frame.clip(-1, 1) * 32767).astype("<i2").tobytes())
        except BlockingIOError:
            self.dropped += 1
            return
        self.frames += 1
        (held,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
        self.waiting = max(self.waiting, held / 2 / SAMPLE_RATE)
