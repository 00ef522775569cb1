"""The thread that reads the microphone: frames, activation, utterance. It never judges and never waits for anybody."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from voiceid.activation import ActivationKind, Ending, UtteranceCollector, make_activation, open_source
from voiceid.activation.push_to_talk import PushToTalk
from voiceid.audio.capture import Capture
from voiceid.audio.capture_state import MICROPHONE_PROBLEM, CaptureCounters, CaptureEvent, CaptureState
from voiceid.audio.frames import FrameSource
from voiceid.errors import AudioError
from voiceid.service.attempt import Candidate
from voiceid.settings import Settings
from voiceid.types import Samples, Waveform

_log = logging.getLogger(__name__)

HEARTBEAT_LIMIT = 10.0
"""Seconds without a sign of life after which the reading thread counts as stuck."""
_AT_REST = frozenset({CaptureState.SUSPENDED, CaptureState.CLOSED})
_FILE_PAUSE = 0.05
"""Seconds between two looks at a recording that takes the microphone's place."""
_MENDING = 0.5
"""Seconds between two looks at whether one that cannot be read has changed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An utterance; ``asked_for`` if a client's call opened the ear, else it was spontaneous."""

    waveform: Waveform
    ending: Ending
    asked_for: bool
    began: float
    """When the ear opened, in seconds on the monotonic clock."""


class Listener(Protocol):
    """Told by the reading thread; must return at once."""

    def candidate(self, candidate: Candidate) -> None: ...

    def dropped(self) -> None: ...

    def heard(self, heard: Heard) -> None: ...

    def speech_began(self) -> None: ...

    def microphone(self, event: CaptureEvent) -> None: ...


class Ear:
    """Listens from :meth:`start` to :meth:`close`.

    Raises:
        MissingPackageError: the wake word engine is not installed.
        SettingsError: the engine does not know the wake word.
        AudioError: the recording that takes the microphone's place is none, or this user may not read it.
    """

    def __init__(self, settings: Settings, listener: Listener) -> None:
        self._settings, self._listener = settings, listener
        self._button = PushToTalk()
        self._activation = make_activation(settings.activation)
        self._source = self._open()
        self._collector: UtteranceCollector | None = None
        self._candidate: Candidate | None = None
        self._asked_for = self._speech_told = self._recording = self._delivered = False
        self._began = 0.0
        self._unreadable = ""
        self._asked = threading.Event()
        self._abandon = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ear", daemon=True)

    @property
    def activation(self) -> str:
        """What opens an utterance."""
        return self._settings.activation.kind

    @property
    def state(self) -> str:
        """A :class:`CaptureState`, or ``file``."""
        source = self._source
        if isinstance(source, Capture):
            return source.state.value
        return CaptureState.UNAVAILABLE.value if self._unreadable else "file"

    @property
    def usable(self) -> bool:
        """Whether speech would be heard now."""
        return self.state in (CaptureState.LISTENING, CaptureState.STARTING, "file")

    @property
    def problem(self) -> str | None:
        """Why speech would not be heard now, where something is to be done about it."""
        source = self._source
        if self._unreadable:
            return f"{MICROPHONE_PROBLEM}{self._unreadable}"
        if self.usable or not isinstance(source, Capture) or source.state in _AT_REST:
            return None
        return f"{MICROPHONE_PROBLEM}{source.state.value} ({source.detail})"

    @property
    def device(self) -> str | None:
        """Name of the microphone, if known."""
        return self._source.device if isinstance(self._source, Capture) else None

    @property
    def counters(self) -> CaptureCounters | None:
        """Frames delivered and lost; None for a recording."""
        return self._source.counters if isinstance(self._source, Capture) else None

    @property
    def alive(self) -> bool:
        """Whether the reading thread comes round."""
        if not isinstance(self._source, Capture):
            return self._thread.is_alive()
        return self._thread.is_alive() and time.monotonic() - self._source.heartbeat < HEARTBEAT_LIMIT

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def ask(self) -> None:
        """Open the ear for one utterance now; what was being collected is dropped."""
        self._abandon.clear()
        self._button.arm()
        self._asked.set()

    def abandon(self) -> None:
        """Drop the utterance that :meth:`ask` opened."""
        self._button.disarm()
        self._asked.clear()
        self._abandon.set()

    def close(self) -> None:
        """End the thread; a sound system that does not return is left behind."""
        self._closed.set()
        self._asked.set()
        self._source.close()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _open(self) -> FrameSource:
        return open_source(self._settings.capture, self._settings.activation, on_event=self._listener.microphone)

    def _run(self) -> None:
        if isinstance(self._source, Capture):
            self._listen()
            return
        while not self._closed.is_set():
            try:
                self._play()
            except (AudioError, OSError) as error:
                self._wait_for_another(str(error))

    def _wait_for_another(self, problem: str) -> None:
        """The recording cannot be read, as long as the same lies there."""
        _log.error("the recording cannot be read: %s", problem)
        path = self._settings.activation.file
        unreadable = _identity(path)
        self._unreadable = problem
        self._tell(CaptureState.UNAVAILABLE, CaptureState.LISTENING, problem)
        while not self._closed.wait(_MENDING) and _identity(path) == unreadable:
            pass
        self._asked.clear()
        self._unreadable = ""
        self._tell(CaptureState.LISTENING, CaptureState.UNAVAILABLE, "another recording")

    def _tell(self, state: CaptureState, previous: CaptureState, detail: str) -> None:
        self._listener.microphone(CaptureEvent(state, previous, None, detail, time.monotonic()))

    def _play(self) -> None:
        """A pipe is listened to all the time, a recording is played for each client that asks."""
        path = self._settings.activation.file
        self._recording = path is not None and path.is_file()
        if self._recording and not self._asked.wait(_FILE_PAUSE):
            return
        self._asked.clear()
        self._delivered = False
        self._source = self._open()
        if self._closed.is_set():
            return
        self._listen()
        if self._collector is not None:
            self._end(self._collector.finish())

    def _listen(self) -> None:
        for frame in self._source.frames():
            if self._closed.is_set():
                return
            if frame.gap:
                self._start_over()
            if self._abandon.is_set():
                self._abandon.clear()
                if self._asked_for:
                    self._drop()
            self._hear(frame.samples)
            if self._recording and self._delivered:
                return

    def _start_over(self) -> None:
        """Audio is missing: what was collected is dropped, but whoever asked is still to be heard."""
        self._activation.reset()
        if self._collector is not None and self._asked_for and not self._abandon.is_set():
            self._button.arm()
        self._drop()

    def _drop(self) -> None:
        """Forget what is being collected."""
        if self._collector is not None:
            self._collector = None
            self._offer(None)
            self._listener.dropped()

    def _hear(self, samples: Samples) -> None:
        activated = self._button.feed(samples)
        if activated is None and self._collector is None and not self._recording:
            activated = self._activation.feed(samples)
        if activated is not None:
            self._drop()
            lead = self._source.recent(activated.lookback)
            self._collector = UtteranceCollector(self._settings.activation, self._source.source, lead=lead)
            self._asked_for = activated.kind is ActivationKind.PUSH_TO_TALK
            self._speech_told = False
            self._began = time.monotonic()
        elif self._collector is not None:
            waveform = self._collector.feed(samples)
            if self._collector.speech > 0 and not self._speech_told:
                self._speech_told = True
                self._listener.speech_began()
            self._offer(self._collector.candidate)
            if waveform is not None:
                self._end(waveform)

    def _offer(self, waveform: Waveform | None) -> None:
        """Tell of a new candidate; a former one that is another is void."""
        former = self._candidate
        if former is not None and former.waveform is not waveform:
            former.void.set()
            self._candidate = None
        if waveform is not None and self._candidate is None:
            self._candidate = Candidate(waveform, self._asked_for, self._began)
            self._listener.candidate(self._candidate)

    def _end(self, waveform: Waveform) -> None:
        ending = self._collector.ending if self._collector is not None else None
        self._collector = self._candidate = None
        self._delivered = True
        self._activation.reset()
        self._listener.heard(Heard(waveform, ending or Ending.FINISHED, self._asked_for, self._began))


def _identity(path: Path | None) -> tuple[int, ...] | None:
    """What changes where another file lies at ``path``, or other things in it; None where there is none."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return (
        None if status is None else (status.st_dev, status.st_ino, status.st_mode, status.st_mtime_ns, status.st_size)
    )
