"""The one reader of the microphone: it survives whatever happens to the device, and says so."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import MappingProxyType

import numpy as np

from voiceid.audio.capture_state import CaptureCounters, CaptureEvent, CaptureState
from voiceid.audio.clock import Clock, SystemClock
from voiceid.audio.device import Backend, choose
from voiceid.audio.frames import Frame, Framer
from voiceid.audio.open_microphone import OpenMicrophone
from voiceid.audio.pauses import Pauses
from voiceid.audio.ring import RingBuffer
from voiceid.errors import AudioDeviceError, DeviceAccessError, DeviceBusyError, DeviceLostError, NoDeviceError
from voiceid.settings import CaptureSettings
from voiceid.types import Samples, Source

BLOCK = 0.03
"""Seconds a block that is asked of the sound system."""
BEAT = 0.5
"""Longest wait (seconds) between two heartbeats."""
STEADY = 5.0
"""Seconds of audio after which a device counts as well, and the pauses between attempts begin anew."""
SLEPT = 2.0
"""Seconds by which the clocks must differ for the machine to have slept."""
DIGITAL_SILENCE = 1e-6
"""Peak-to-peak range that no real microphone stays within."""

_UNMUTE = "unmute it, and allow this program to use it"
_STATES: dict[type[AudioDeviceError], CaptureState] = {
    NoDeviceError: CaptureState.NO_DEVICE,
    DeviceBusyError: CaptureState.BUSY,
    DeviceAccessError: CaptureState.DENIED,
    DeviceLostError: CaptureState.LOST,
}


class Capture:
    """Frames from the microphone that the settings choose, through loss, silence and sleep.

    :meth:`frames` runs in one thread, where :meth:`recent` belongs too; everything else may be called from any. Sound
    is only captured while :meth:`frames` runs.
    """

    def __init__(
        self,
        settings: CaptureSettings | None = None,
        *,
        backend: Backend | None = None,
        clock: Clock | None = None,
        on_event: Callable[[CaptureEvent], None] | None = None,
    ) -> None:
        """``on_event`` hears every change of state, on the thread of :meth:`frames`, and must return at once."""
        self._settings = settings or CaptureSettings()
        self._backend = backend or _portaudio()
        self._clock = clock or SystemClock()
        self._on_event = on_event
        self._condition = threading.Condition()
        self._ring = RingBuffer(self._settings.history)
        self._pauses = Pauses(self._settings.reopen_first, self._settings.reopen_longest)
        self._state = CaptureState.STARTING
        self._detail = ""
        self._device: str | None = None
        self._counts: Counter[str] = Counter()
        self._entered: Counter[CaptureState] = Counter()
        self._suspended = self._closed = False
        self._silent_since: float | None = None
        self._stale_at: float | None = None
        self._asleep = 0.0
        self._heartbeat = self._clock.monotonic()

    @property
    def source(self) -> Source:
        return Source.MICROPHONE

    @property
    def state(self) -> CaptureState:
        return self._state

    @property
    def detail(self) -> str:
        """What brought the state about, in words, and what to do."""
        return self._detail

    @property
    def device(self) -> str | None:
        """Name of the microphone that is open or was last."""
        return self._device

    @property
    def heartbeat(self) -> float:
        """When the loop of :meth:`frames` last came round (monotonic seconds): about twice a second if it lives."""
        return self._heartbeat

    @property
    def counters(self) -> CaptureCounters:
        entered = {state: self._entered[state] for state in CaptureState}
        names = ("frames", "dropped", "overflows", "opens", "attempts")
        return CaptureCounters(**{n: self._counts[n] for n in names}, entered=MappingProxyType(entered))

    def frames(self) -> Iterator[Frame]:
        """Frames until :meth:`close`; blocks while there are none. Never raises for anything that a device does."""
        try:
            while not self._closed:
                if self._suspended:
                    self._become(CaptureState.SUSPENDED, "released until it is resumed")
                    self._rest(math.inf)
                elif (microphone := self._try_open()) is None:
                    self._rest(self._pauses.grow())
                else:
                    with microphone:
                        yield from self._read(microphone)
                    if self._state is CaptureState.LOST:
                        self._rest(self._pauses.grow())
        finally:
            self._become(CaptureState.CLOSED, "closed")

    def recent(self, seconds: float) -> Samples:
        """The last ``seconds`` (at most ``history``) that :meth:`frames` delivered since the last gap."""
        return self._ring.last(seconds)

    def suspend(self) -> None:
        """Release the microphone, as before the machine sleeps; the event ``suspended`` says when that is done."""
        self._ask(suspended=True)

    def resume(self) -> None:
        """Take the microphone again."""
        self._ask(suspended=False)

    def close(self) -> None:
        """Release the microphone for good."""
        self._ask(closed=True)

    def _ask(self, *, suspended: bool | None = None, closed: bool = False) -> None:
        with self._condition:
            self._suspended = self._suspended if suspended is None else suspended
            self._closed = self._closed or closed
            self._condition.notify_all()

    def _try_open(self) -> OpenMicrophone | None:
        self._counts["attempts"] += 1
        try:
            if self._state is not CaptureState.STARTING:
                self._backend.restart()
            chosen = choose(self._backend.microphones(), self._settings.device)
            microphone = OpenMicrophone(
                self._backend,
                chosen,
                block=BLOCK,
                queue=self._settings.queue,
                lost_after=self._settings.lost_after,
                condition=self._condition,
                clock=self._clock,
                counts=self._counts,
            )
        except AudioDeviceError as error:
            self._become(_STATES.get(type(error), CaptureState.UNAVAILABLE), str(error))
            return None
        self._counts["opens"] += 1
        self._device, self._stale_at = chosen.name, None
        return microphone

    def _read(self, microphone: OpenMicrophone) -> Iterator[Frame]:
        """Frames until the device is lost, should be opened anew, or is no longer wanted."""
        opened, framer, gap = self._beat(), Framer(), True
        self._asleep = self._clock.boottime() - self._clock.monotonic()
        while not (self._suspended or self._closed):
            try:
                received = microphone.read(BEAT)
            except DeviceLostError as error:
                self._become(CaptureState.LOST, str(error))
                return
            now = self._beat()
            if self._slept():
                return
            if received is None:
                continue
            samples, lost = received
            self._hear(samples, now)
            if self._stale(now, opened):
                return
            if lost:
                framer, gap = Framer(), True
            for frame in framer.push(samples):
                yield self._deliver(frame, gap)
                gap = False

    def _deliver(self, samples: Samples, gap: bool) -> Frame:
        if gap:
            self._ring.clear()
        self._ring.push(samples)
        self._counts["frames"] += 1
        return Frame(samples, gap)

    def _hear(self, samples: Samples, now: float) -> None:
        """Tell audio from digital silence."""
        if samples.size and float(np.ptp(samples)) > DIGITAL_SILENCE:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        if self._silent_since is None:
            self._become(CaptureState.LISTENING, f"{self._device!r} delivers audio")
        elif now - self._silent_since >= self._settings.silent_after:
            self._become(CaptureState.SILENT, f"{self._device!r} delivers only digital silence; {_UNMUTE}")
        elif self._state is not CaptureState.SILENT:
            self._become(CaptureState.LISTENING, f"{self._device!r} delivers zeros so far")

    def _stale(self, now: float, opened: float) -> bool:
        """Whether a silent stream should be opened anew. A steady one lets the pauses begin anew."""
        if self._state is CaptureState.SILENT:
            if self._stale_at is None:
                self._stale_at = now + self._pauses.grow()
            return now >= self._stale_at
        self._stale_at = None
        if now - opened >= STEADY:
            self._pauses.reset()
        return False

    def _slept(self) -> bool:
        """Whether the machine has slept since this was last asked: an old stream may be dead or silent then."""
        before, boot, after = self._clock.monotonic(), self._clock.boottime(), self._clock.monotonic()
        if after - before > SLEPT / 2:  # this thread was held up between the clocks, which says nothing of them
            return False
        slept, self._asleep = boot - after - self._asleep, boot - after
        if slept > SLEPT:
            self._become(CaptureState.SUSPENDED, f"the machine slept for {slept:.0f} s; opening the microphone anew")
        return slept > SLEPT

    def _rest(self, seconds: float) -> None:
        """Let ``seconds`` pass, fewer if something is asked of this capture."""
        until = self._beat() + seconds
        with self._condition:
            asked = (self._suspended, self._closed)
            while (self._suspended, self._closed) == asked and (left := until - self._beat()) > 0:
                self._clock.wait(self._condition, min(BEAT, left))

    def _beat(self) -> float:
        self._heartbeat = self._clock.monotonic()
        return self._heartbeat

    def _become(self, state: CaptureState, detail: str) -> None:
        missing = state is CaptureState.NO_DEVICE and self._state is CaptureState.LOST
        if state is self._state or missing:
            return
        event = CaptureEvent(state, self._state, self._device, detail, self._clock.monotonic())
        self._state, self._detail = state, detail
        self._entered[state] += 1
        if state is not CaptureState.SILENT and state is not CaptureState.LISTENING:
            self._silent_since = None
        if self._on_event is not None:
            self._on_event(event)


def _portaudio() -> Backend:
    from voiceid.audio.portaudio import PortAudioBackend

    return PortAudioBackend()
