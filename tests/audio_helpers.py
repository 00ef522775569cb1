"""A sound system and a clock that tests drive, and audio to send through them."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from voiceid.audio.device import Microphone, Receive
from voiceid.errors import AudioDeviceError, NoDeviceError
from voiceid.types import SAMPLE_RATE, Samples

HORIZON = 3600.0
"""Seconds after which a test that waits for something that never comes fails."""


class FakeClock:
    """Time that passes only when somebody waits; actions happen at their times, on the waiting thread."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asleep = 0.0
        self._end = self.now + HORIZON
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self.now

    def boottime(self) -> float:
        return self.now + self.asleep

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        self._step(self.now + seconds)

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in ``seconds``."""
        heapq.heappush(self._actions, (self.now + seconds, next(self._numbers), action))

    def run(self, seconds: float) -> None:
        """Let ``seconds`` pass while nobody reads."""
        until = self.now + seconds
        while self.now < until:
            self._step(until)

    def _step(self, until: float) -> None:
        if self._actions and self._actions[0][0] <= until:
            at, _, action = heapq.heappop(self._actions)
            self.now = max(self.now, at)
            action()
        else:
            self.now = until
        assert self.now < self._end, "what the test waits for never came"


def hum(start: int, count: int, rate: int) -> Samples:
    """A quiet tone, (count, 1)."""
    return (0.1 * np.sin(2 * np.pi * 200 * np.arange(start, start + count) / rate)).astype(np.float32)[:, None]


def zeros(start: int, count: int, rate: int) -> Samples:
    """Digital silence, (count, 1)."""
    return np.zeros((count, 1), np.float32)


@dataclass
class FakeSound:
    """A sound system with microphones that can be plugged, unplugged, muted and stopped.

    Like PortAudio it lists its devices when it starts, and again only when it is restarted.
    """

    clock: FakeClock
    present: list[Microphone] = field(default_factory=list)
    error: AudioDeviceError | None = None
    """What opening a device raises."""
    hears: Callable[[int, int, int], Samples] = hum
    """Audio (count, channels) from the sample frame start on, given start, count and rate."""
    rate: int = SAMPLE_RATE
    channels: int = 1
    opened: list[Microphone] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)
    """When devices were looked for."""
    streams: list[FakeStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listed = tuple(self.present)

    def restart(self) -> None:
        assert not any(stream.open for stream in self.streams), "PortAudio must not be restarted under a stream"
        self._listed = tuple(self.present)

    def microphones(self) -> tuple[Microphone, ...]:
        self.attempts.append(self.clock.now)
        return self._listed

    def open(self, microphone: Microphone, receive: Receive, *, block: float) -> FakeStream:
        if self.error is not None:
            raise self.error
        if microphone not in self.present:
            raise NoDeviceError(f"{microphone.name!r} is not there any more")
        self.opened.append(microphone)
        self.streams.append(FakeStream(self, receive, round(block * self.rate)))
        return self.streams[-1]

    def plug(self, name: str, index: int = 0) -> Microphone:
        """Connect a microphone."""
        self.present.append(Microphone(index, name, self.channels, self.rate, default=not self.present))
        return self.present[-1]

    def unplug(self) -> None:
        """Disconnect everything."""
        self.present.clear()
        for stream in self.streams:
            stream.active = False


class FakeStream:
    """Delivers a block whenever its time has come."""

    def __init__(self, sound: FakeSound, receive: Receive, block: int) -> None:
        self.rate, self.channels = sound.rate, sound.channels
        self.open = self.active = True
        self.hanging = self.overflowed = False
        self.sent = 0
        self._sound, self._receive, self._block = sound, receive, block
        self._schedule()

    def close(self) -> None:
        self.open = self.active = False

    def _schedule(self) -> None:
        self._sound.clock.at(self._block / self.rate, self._deliver)

    def _deliver(self) -> None:
        if not self.active:
            return
        if not self.hanging:
            block = self._sound.hears(self.sent, self._block, self.rate)
            self._receive(block.astype(np.float32), self.overflowed)
            self.overflowed = False
        self.sent += self._block
        self._schedule()


def voiced(seconds: float, *, level: float = 0.1, pitch: float = 120.0) -> Samples:
    """A vowel-like buzz that swells four times a second, speech to a detector: float32 (n,) at 16 kHz."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    wave = np.zeros_like(time)
    for harmonic in range(1, 30):
        frequency = harmonic * pitch
        formants = sum(np.exp(-(((frequency - centre) / width) ** 2)) for centre, width in FORMANTS)
        wave += (formants + 0.02) * np.sin(2 * np.pi * frequency * time)
    wave *= 0.6 + 0.4 * np.sin(2 * np.pi * 4 * time)
    return (level * wave / np.sqrt(np.mean(wave**2))).astype(np.float32)


FORMANTS = ((600.0, 150.0), (1200.0, 200.0), (2500.0, 300.0))


def noise(seconds: float, level: float = 1e-3) -> Samples:
    """Seeded white noise of RMS ``level``: float32 (n,) at 16 kHz."""
    return np.random.default_rng(0).normal(0, level, round(seconds * SAMPLE_RATE)).astype(np.float32)


def in_frames(samples: Samples, size: int) -> Iterator[Samples]:
    """``samples`` cut into whole frames."""
    return iter(samples[: len(samples) // size * size].reshape(-1, size))
