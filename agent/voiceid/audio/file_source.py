"""Frames from a recording or a named pipe, for tests and demonstrations; their source says so."""

from __future__ import annotations

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


class FileSource:
    """A recording of any format, as fast as it is read, or what is written into a pipe (mono, 16 kHz, 16-bit PCM).

    A last frame that is not full is left out.

    Raises:
        AudioError: there is no such file; from :meth:`frames`, it cannot be read.
    """

    def __init__(self, path: Path, *, history: float = 3.0) -> None:
        if not path.exists():
            raise AudioError(f"{path}: no such recording or pipe")
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
        with self._path.open("rb") as pipe:
            while len(data := pipe.read(FRAME_BYTES)) == FRAME_BYTES:
                yield np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
