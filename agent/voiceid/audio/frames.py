"""Audio as it comes: frames of one fixed size, and what delivers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from voiceid.audio.vad import FRAME
from voiceid.types import Samples, Source


@dataclass(frozen=True, slots=True)
class Frame:
    """``samples`` float32 (``FRAME``,) at 16 kHz; ``gap`` if audio is missing before them, so that nothing may join."""

    samples: Samples
    gap: bool = False


class FrameSource(Protocol):
    """Delivers frames to one reader, and remembers the last of them."""

    @property
    def source(self) -> Source:
        """What goes into the envelope's signature."""

    def frames(self) -> Iterator[Frame]:
        """Frames as they come; blocks between them, and ends when the source does or is closed."""

    def recent(self, seconds: float) -> Samples:
        """The last ``seconds`` that :meth:`frames` delivered (less after a gap): for the audio before an activation."""

    def close(self) -> None:
        """End :meth:`frames`; from any thread."""


class Framer:
    """Cuts audio of any length into frames."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> list[Samples]:
        """The frames that ``samples`` (n,) complete."""
        joined = np.concatenate((self._rest, samples))
        count = len(joined) // FRAME
        self._rest = joined[count * FRAME :]
        return list(joined[: count * FRAME].reshape(count, FRAME))
