"""The capture session: who may use the microphone now, what is claimed, and the audio that was handed over."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from voiceid.service.fields import MAX_HANDED_SECONDS
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.service.turns import Turns
from voiceid.types import SAMPLE_RATE, Source, Waveform

_SAMPLE_BYTES = 2
_GRACE = 1.0
"""Seconds after which a claim that ran out during a request is looked at again."""


@dataclass(frozen=True, slots=True)
class Arming:
    """What a spontaneous utterance is to be signed for."""

    rp_id: str
    purpose: str
    nonce: bytes


@dataclass(eq=False, slots=True)
class Claim:
    """The capture session in the hands of ``holder``, a connection."""

    holder: object
    claim_id: str
    since: float
    """When it was made, in seconds on the monotonic clock."""
    until: float
    """When it ends at the latest, on the same clock."""
    uid: int
    """Whose it is."""
    used: float
    """When it was last used."""
    arming: Arming | None = None
    busy: bool = False
    """Whether a request listens or is judged under it."""
    expiry: asyncio.TimerHandle | None = None
    pcm: bytearray = field(default_factory=bytearray)
    recordings: list[bytes] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Audio that was handed over."""
        return (len(self.pcm) + sum(map(len, self.recordings))) / (_SAMPLE_BYTES * SAMPLE_RATE)

    def append(self, pcm: bytes, *, end: bool) -> None:
        """Take 16-bit little-endian samples at 16 kHz; with ``end`` they close a recording.

        Raises:
            RequestError: half a sample, or more than a claim may hold.
        """
        if len(pcm) % _SAMPLE_BYTES:
            raise RequestError(Fault.INVALID_PARAMS, "audio.append: half a sample")
        if self.seconds + len(pcm) / (_SAMPLE_BYTES * SAMPLE_RATE) > MAX_HANDED_SECONDS:
            raise RequestError(Fault.AUDIO, f"a claim holds at most {MAX_HANDED_SECONDS} s of audio")
        self.pcm += pcm
        self.used = time.monotonic()
        if end:
            self.recordings.append(bytes(self.pcm))
            self.pcm.clear()

    def take_recordings(self) -> list[Waveform]:
        """The recordings that were handed over, which are forgotten here; their source is ``file`` for good.

        Raises:
            RequestError: there are none.
        """
        if not self.recordings:
            raise RequestError(Fault.AUDIO, "no recording was handed over: claim, then audio.append with end")
        recordings, self.recordings = self.recordings, []
        return [_waveform(recording) for recording in recordings]


class CaptureSession:
    """Grants the one claim. For the event loop's thread only.

    A claim that is not armed ends after :attr:`idle` seconds without use, and its uid must leave the session to others
    for as long. A uid that was refused while another had the session goes before that one. So who may open the socket
    cannot keep the microphone from everybody else, neither by doing nothing nor by asking again and again.
    """

    def __init__(self, on_expiry: Callable[[Claim, str], None], *, idle: float) -> None:
        """``on_expiry`` hears which claim ran out, and whether it was ``expired`` or ``idle``."""
        self.idle = idle
        self._claim: Claim | None = None
        self._on_expiry = on_expiry
        self._barred: dict[int, float] = {}
        self._turns = Turns()

    @property
    def current(self) -> Claim | None:
        """The claim in force."""
        return self._claim

    def claim(self, holder: object, *, uid: int, seconds: float, arming: Arming | None = None) -> Claim:
        """Take the session.

        Raises:
            RequestError: somebody has it, or goes first, or ``uid`` had it for nothing a moment ago.
        """
        now = time.monotonic()
        if self._claim is not None:
            raise self._busy(uid)
        if arming is None and now < self._barred.get(uid, now):
            raise RequestError(Fault.BUSY, "the last claim of this uid was not used; leave the session to others")
        claim = self._take(holder, uid, seconds, arming)
        self._look(claim)
        return claim

    def of(self, holder: object) -> Claim:
        """The claim of ``holder``.

        Raises:
            RequestError: it has none.
        """
        if self._claim is None or self._claim.holder is not holder:
            raise RequestError(Fault.BUSY, "claim the capture session first")
        return self._claim

    def release(self, holder: object) -> bool:
        """Give up the claim of ``holder``; whether it had one."""
        if self._claim is None or self._claim.holder is not holder:
            return False
        self._end(self._claim)
        return True

    @contextlib.contextmanager
    def using(self, holder: object, *, uid: int) -> Iterator[Claim]:
        """The claim of ``holder`` for one request, or one for just as long.

        Raises:
            RequestError: another client has it or goes first, or another request of this one uses it.
        """
        if self._claim is not None and not self._claim.busy:
            self._look(self._claim)  # one request after the other must not draw it out
        claim = self._claim
        own = claim is not None and claim.holder is holder
        if claim is not None and (not own or claim.busy):
            raise self._busy(uid)
        if claim is None:
            claim = self._take(holder, uid, 0.0, None)
        claim.busy = True
        try:
            yield claim
        finally:
            claim.busy, claim.used = False, time.monotonic()
            if not own and self._claim is claim:
                self._end(claim)

    def _take(self, holder: object, uid: int, seconds: float, arming: Arming | None) -> Claim:
        if not self._turns.is_next(uid):
            self._turns.refuse(uid)
            raise RequestError(Fault.BUSY, "another client was here first; try again later")
        self._turns.take(uid)
        now = time.monotonic()
        self._claim = Claim(holder, secrets.token_hex(8), now, now + seconds, uid, now, arming)
        return self._claim

    def _busy(self, uid: int) -> RequestError:
        """Refuses ``uid``, which keeps its place in the line."""
        if self._claim is not None and self._claim.uid != uid:
            self._turns.refuse(uid)
        return RequestError(Fault.BUSY, Fault.BUSY.meaning)

    def _look(self, claim: Claim) -> None:
        """End ``claim`` if its time is over; else look again when it may be."""
        if self._claim is not claim:
            return
        if claim.expiry is not None:
            claim.expiry.cancel()
        now = time.monotonic()
        end = claim.until if claim.arming is not None else min(claim.until, claim.used + self.idle)
        if claim.busy or now < end:  # what is under way has its own limits
            wait = max(_GRACE if claim.busy else 0.0, end - now)
            claim.expiry = asyncio.get_running_loop().call_later(wait, self._look, claim)
            return
        self._end(claim)
        if end < claim.until:
            self._barred = {uid: until for uid, until in self._barred.items() if until > now} | {
                claim.uid: now + self.idle
            }
        self._on_expiry(claim, "idle" if end < claim.until else "expired")

    def _end(self, claim: Claim) -> None:
        self._claim = None
        if claim.expiry is not None:
            claim.expiry.cancel()
        claim.pcm.clear()
        claim.recordings.clear()


def _waveform(pcm: bytes) -> Waveform:
    samples = np.frombuffer(pcm, "<i2").astype(np.float32)
    return Waveform(samples / np.float32(32768), Source.FILE)
