"""Frames from a recording or a named pipe, for tests and demonstrations; their source says so."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voiceid.audio.files import read_waveform
from voiceid.audio.frames import Frame, Framer
from voiceid.audio.ring import RingBuffer
from voiceid.audio.vad import FRAME
from voiceid.errors import AudioError
from voiceid.types import Samples, Source

FRAME_BYTES = 2 * FRAME
_PIECE = 64 * FRAME_BYTES
_PAUSE = 0.05
"""Seconds between two looks at whether a pipe that nobody writes to is still wanted."""


class FileSource:
    """A recording of any format, as fast as it is read, or what is written into a pipe (mono, 16 kHz, 16-bit PCM).

    A last frame that is not full is left out.

    Raises:
        AudioError: no recording or pipe that this user may read; from :meth:`frames`, it cannot be read.
    """

    def __init__(self, path: Path, *, history: float = 3.0) -> None:
        _check(path)
        self._path = path
        self._ring = RingBuffer(history)
        self._closed = False

    @property
    def source(self) -> Source:
        return Source.FILE

    def frames(self) -> Iterator[Frame]:
        for number, samples in enumerate(self._pieces()):
            if self._closed:
                return
            self._ring.push(samples)
            yield Frame(samples, gap=number == 0)

    def recent(self, seconds: float) -> Samples:
        return self._ring.last(seconds)

    def close(self) -> None:
        self._closed = True

    def _pieces(self) -> Iterator[Samples]:
        if not stat.S_ISFIFO(self._path.stat().st_mode):
            yield from Framer().push(read_waveform(self._path).samples)
            return
        pipe = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            held = b""
            while data := self._written(pipe):
                held += data
                whole = len(held) - len(held) % FRAME_BYTES
                for frame in np.frombuffer(held[:whole], "<i2").reshape(-1, FRAME):
                    yield frame.astype(np.float32) / np.float32(32768)
                held = held[whole:]
        finally:
            os.close(pipe)

    def _written(self, pipe: int) -> bytes:
        """What is written next into ``pipe``; nothing once its writer or this source is closed."""
        while not self._closed:
            if select.select([pipe], [], [], _PAUSE)[0]:
                return os.read(pipe, _PIECE)
        return b""


def _check(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise AudioError(f"{path}: no such recording or pipe; make it, or name another") from None
    except OSError as error:  # as of a name that is too long to exist
        raise AudioError(f"{path}: cannot be read ({error.strerror})") from error
    if stat.S_ISDIR(mode):
        raise AudioError(f"{path}: is a folder; name a recording or a pipe")
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise AudioError(f"{path}: is neither a recording nor a pipe")
    if not os.access(path, os.R_OK):
        raise AudioError(f"{path}: cannot be read (Permission denied); see its owner and mode")
