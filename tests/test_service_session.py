"""The capture session: one holder, claims that end, audio that is handed over."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from voiceid.service.fields import MAX_CHUNK, MAX_HANDED_SECONDS
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.service.session import Arming, CaptureSession
from voiceid.service.turns import PATIENCE
from voiceid.types import Source


def in_loop(test):
    """Run the coroutine function ``test`` in an event loop of its own."""

    def run():
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


def fault(function, *arguments, **more):
    with pytest.raises(RequestError) as caught:
        function(*arguments, **more)
    return caught.value.fault


@in_loop
async def test_only_one_client_has_it():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    one, two = object(), object()
    claim = session.claim(one, uid=1000, seconds=60)
    assert session.of(one) is claim and session.current is claim
    assert fault(session.claim, two, uid=1000, seconds=60) is Fault.BUSY
    assert fault(session.claim, one, uid=1000, seconds=60) is Fault.BUSY
    assert fault(session.of, two) is Fault.BUSY
    with pytest.raises(RequestError), session.using(two, uid=1000):
        pass
    assert not session.release(two)
    assert session.release(one)
    assert not session.release(one)
    session.claim(two, uid=1000, seconds=60)


@in_loop
async def test_a_request_uses_the_claim_or_has_one_for_its_time():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    one, two = object(), object()
    with session.using(one, uid=1000):
        assert fault(session.claim, two, uid=1000, seconds=1) is Fault.BUSY
        with pytest.raises(RequestError), session.using(one, uid=1000):
            pass
    assert session.current is None
    claim = session.claim(one, uid=1000, seconds=60)
    with session.using(one, uid=1000) as used:
        assert used is claim
    assert session.current is claim, "a claim outlives its requests"


class Endings:
    """Collects which claims ended, and why."""

    def __init__(self):
        self.reasons, self._event = [], asyncio.Event()

    def __call__(self, claim, reason):
        self.reasons.append(reason)
        self._event.set()

    async def wait(self):
        async with asyncio.timeout(60):
            await self._event.wait()


@in_loop
async def test_a_claim_runs_out_but_not_under_a_request():
    ended = Endings()
    session = CaptureSession(ended, idle=60)
    claim = session.claim(one := object(), uid=1000, seconds=0.01)
    with session.using(one, uid=1000):
        await asyncio.sleep(0.05)
        assert session.current is claim and not ended.reasons
    await ended.wait()
    assert session.current is None and ended.reasons == ["expired"]


@in_loop
async def test_a_claim_for_nothing_ends_soon():
    ended = Endings()
    session = CaptureSession(ended, idle=0.02)
    session.claim(object(), uid=1000, seconds=300)
    await ended.wait()
    assert session.current is None and ended.reasons == ["idle"]
    await asyncio.sleep(0.1)
    session.claim(object(), uid=1000, seconds=300)


@in_loop
async def test_whose_claim_was_for_nothing_lets_others_go_first():
    session = CaptureSession(ended := Endings(), idle=60)
    claim = session.claim(object(), uid=1000, seconds=300)
    claim.used -= 61
    session._look(claim)
    assert session.current is None and ended.reasons == ["idle"]
    assert fault(session.claim, object(), uid=1000, seconds=300) is Fault.BUSY
    session.claim(other := object(), uid=1001, seconds=300)
    session.release(other)
    with session.using(object(), uid=1000):
        assert session.current is not None, "a request that listens is no idle claim"


@in_loop
async def test_who_was_refused_goes_before_who_asks_again():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    session.claim(greedy := object(), uid=1000, seconds=60)
    patient, third = object(), object()
    assert fault(session.claim, patient, uid=1001, seconds=60) is Fault.BUSY
    with pytest.raises(RequestError), session.using(third, uid=1002):
        pass
    session.release(greedy)
    for _ in range(3):
        assert fault(session.claim, greedy, uid=1000, seconds=60) is Fault.BUSY
        with pytest.raises(RequestError), session.using(object(), uid=1000):
            pass
    assert fault(session.claim, third, uid=1002, seconds=60) is Fault.BUSY, "in the order in which they came"
    session.claim(patient, uid=1001, seconds=60)
    session.release(patient)
    with session.using(third, uid=1002):
        pass
    session.claim(greedy, uid=1000, seconds=60)


@in_loop
async def test_who_does_not_come_back_keeps_nobody_waiting():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    session.claim(one := object(), uid=1000, seconds=60)
    assert fault(session.claim, object(), uid=1001, seconds=60) is Fault.BUSY
    session.release(one)
    session._turns._waiting[1001] -= PATIENCE
    session.claim(one, uid=1000, seconds=60)


@in_loop
async def test_clients_of_one_uid_do_not_stand_in_line_for_each_other():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    session.claim(one := object(), uid=1000, seconds=60)
    assert fault(session.claim, object(), uid=1000, seconds=60) is Fault.BUSY
    session.release(one)
    assert fault(session.of, one) is Fault.BUSY
    session.claim(one, uid=1000, seconds=60)


@in_loop
async def test_one_request_after_the_other_does_not_draw_a_claim_out():
    session = CaptureSession(ended := Endings(), idle=60)
    claim = session.claim(one := object(), uid=1000, seconds=60)
    with session.using(one, uid=1000):
        claim.until -= 61
        assert fault(session.claim, object(), uid=1001, seconds=60) is Fault.BUSY
    with pytest.raises(RequestError), session.using(one, uid=1000):
        pass
    assert session.current is None and ended.reasons == ["expired"], "its time is over, and another waits"


@in_loop
async def test_use_and_arming_keep_a_claim():
    ended = Endings()
    session = CaptureSession(ended, idle=0.05)
    armed = session.claim(one := object(), uid=1000, seconds=300, arming=Arming("shop.example.org", "pay", bytes(16)))
    await asyncio.sleep(0.2)
    assert session.current is armed and not ended.reasons
    session.release(one)
    session.idle = 60
    used = session.claim(object(), uid=1000, seconds=300)
    used.used -= 59.9
    used.append(bytes(2), end=True)
    session._look(used)
    assert session.current is used
    used.used -= 60
    session._look(used)
    assert session.current is None and ended.reasons == ["idle"]


@in_loop
async def test_audio_that_was_handed_over_is_from_a_file_for_good():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    claim = session.claim(object(), uid=1000, seconds=60)
    assert fault(claim.take_recordings) is Fault.AUDIO
    samples = np.array([0, 16384, -32768, 32767], "<i2")
    claim.append(samples[:2].tobytes(), end=False)
    assert fault(claim.take_recordings) is Fault.AUDIO
    claim.append(samples[2:].tobytes(), end=True)
    claim.append(b"\0\0", end=True)
    first, second = claim.take_recordings()
    assert first.source is second.source is Source.FILE
    assert first.samples.dtype == np.float32
    assert first.samples.tolist() == [0.0, 0.5, -1.0, 32767 / 32768]
    assert fault(claim.take_recordings) is Fault.AUDIO, "it is judged once"


@in_loop
async def test_a_claim_holds_so_much_audio_and_no_half_samples():
    session = CaptureSession(lambda claim, reason: None, idle=60)
    claim = session.claim(one := object(), uid=1000, seconds=60)
    assert fault(claim.append, b"\0", end=True) is Fault.INVALID_PARAMS
    for _ in range(MAX_HANDED_SECONDS):
        claim.append(bytes(MAX_CHUNK), end=True)
    assert claim.seconds == MAX_HANDED_SECONDS
    assert fault(claim.append, b"\0\0", end=True) is Fault.AUDIO
    session.release(one)
    assert claim.seconds == 0
