"""The event loop's side of the ear: one request at a time waits for an utterance, all others are spontaneous."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from voiceid.activation import Ending
from voiceid.audio.capture_state import CaptureEvent
from voiceid.service.attempt import Candidate
from voiceid.service.ear import Ear, Heard
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.settings import Settings
from voiceid.types import Waveform

_log = logging.getLogger(__name__)

MARGIN = 5.0
"""Seconds that an utterance may take beyond what the activation's settings allow."""


class Hearing:
    """Owns the ear. Made in the event loop's thread, as are all calls."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_spontaneous: Callable[[Heard], None],
        on_candidate: Callable[[Candidate], None],
        on_dropped: Callable[[], None],
        on_microphone: Callable[[CaptureEvent], None],
    ) -> None:
        """What no request asks for, ``on_candidate`` hears in advance and ``on_spontaneous`` at its end.

        Where it has no end, since audio is missing or a request comes, ``on_dropped`` is called.
        """
        self._loop = asyncio.get_running_loop()
        self._on_spontaneous, self._on_microphone = on_spontaneous, on_microphone
        self._on_spontaneous_candidate, self._on_dropped = on_candidate, on_dropped
        self._waiting: asyncio.Future[Heard] | None = None
        self._on_speech: Callable[[], None] = _nothing
        self._on_candidate: Callable[[Candidate], object] = _nothing
        self._candidate: Candidate | None = None
        self._asked_at = 0.0
        self._longest = settings.activation.start_timeout + settings.activation.max_seconds + MARGIN
        self.ear = Ear(settings, self)
        self.ear.start()

    async def utterance(
        self, on_speech: Callable[[], None], on_candidate: Callable[[Candidate], object] | None = None
    ) -> Waveform:
        """Open the ear and wait for the end of what is said; ``on_speech`` hears when somebody begins.

        ``on_candidate`` hears what will be returned unless more is said; without a return, the last of them is void.

        Raises:
            RequestError: no microphone, also if it goes away, or nobody speaks.
        """
        if not self.ear.usable:
            raise self._unusable()
        self._waiting, self._on_speech, self._asked_at = self._loop.create_future(), on_speech, time.monotonic()
        self._on_candidate = on_candidate or _nothing
        self.ear.ask()
        heard = None
        try:
            async with asyncio.timeout(self._longest):
                heard = await self._waiting
        except TimeoutError:
            raise (_nobody_spoke() if self.ear.usable else self._unusable()) from None
        finally:
            if heard is None and self._candidate is not None:
                self._candidate.void.set()
            self._waiting, self._candidate = None, None
            self._on_speech = self._on_candidate = _nothing
            self.ear.abandon()
        if heard.ending is Ending.NO_SPEECH:
            raise _nobody_spoke()
        return heard.waveform

    def close(self) -> None:
        """Stop listening."""
        self.ear.close()

    def candidate(self, candidate: Candidate) -> None:
        """Called by the reading thread."""
        self._call(self._offer, candidate)

    def dropped(self) -> None:
        """Called by the reading thread."""
        self._call(self._on_dropped)

    def heard(self, heard: Heard) -> None:
        """Called by the reading thread."""
        self._call(self._deliver, heard)

    def speech_began(self) -> None:
        """Called by the reading thread."""
        self._call(self._tell_speech)

    def microphone(self, event: CaptureEvent) -> None:
        """Called by the reading thread."""
        self._call(self._follow, event)

    def _offer(self, candidate: Candidate) -> None:
        if self._waiting is not None and not self._waiting.done():
            if candidate.asked_for and candidate.began >= self._asked_at:
                self._candidate = candidate
                self._on_candidate(candidate)
        elif not candidate.asked_for:
            self._on_spontaneous_candidate(candidate)

    def _deliver(self, heard: Heard) -> None:
        if self._waiting is not None and not self._waiting.done():
            # What was said for a request that is over answers no other.
            if heard.asked_for and heard.began >= self._asked_at:
                self._waiting.set_result(heard)
        elif not heard.asked_for and heard.ending is not Ending.NO_SPEECH:
            self._on_spontaneous(heard)

    def _tell_speech(self) -> None:
        self._on_speech()

    def _follow(self, event: CaptureEvent) -> None:
        _log.info("microphone: %s (%s)", event.state.value, event.detail)
        if self._waiting is not None and not self._waiting.done() and not self.ear.usable:
            self._waiting.set_exception(self._unusable())
        self._on_microphone(event)

    def _unusable(self) -> RequestError:
        """With the state, as ``status`` tells it to everybody."""
        meaning = Fault.MICROPHONE.meaning
        return RequestError(Fault.MICROPHONE, f"{meaning} (state {self.ear.state!r}: see 'voiceid status')")

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)


def _nobody_spoke() -> RequestError:
    return RequestError(Fault.NO_SPEECH, Fault.NO_SPEECH.meaning)


def _nothing(*_: object) -> None:
    """Nobody wants to know."""
