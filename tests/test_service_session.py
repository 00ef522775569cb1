"""The capture session: one holder, claims that end, audio that is handed over."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from voiceid.service.methods import MAX_CHUNK, MAX_HANDED_SECONDS
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.service.session import CaptureSession
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
    session = CaptureSession(lambda claim: None)
    one, two = object(), object()
    claim = session.claim(one, seconds=60)
    assert session.of(one) is claim and session.current is claim
    assert fault(session.claim, two, seconds=60) is Fault.BUSY
    assert fault(session.claim, one, seconds=60) is Fault.BUSY
    assert fault(session.of, two) is Fault.BUSY
    with pytest.raises(RequestError), session.using(two):
        pass
    assert not session.release(two)
    assert session.release(one)
    assert not session.release(one)
    session.claim(two, seconds=60)


@in_loop
async def test_a_request_uses_the_claim_or_has_one_for_its_time():
    session = CaptureSession(lambda claim: None)
    one, two = object(), object()
    with session.using(one):
        assert fault(session.claim, two, seconds=1) is Fault.BUSY
        with pytest.raises(RequestError), session.using(one):
            pass
    assert session.current is None
    claim = session.claim(one, seconds=60)
    with session.using(one) as used:
        assert used is claim
    assert session.current is claim, "a claim outlives its requests"


@in_loop
async def test_a_claim_runs_out_but_not_under_a_request():
    ended = []
    session = CaptureSession(ended.append)
    claim = session.claim(one := object(), seconds=0.01)
    with session.using(one):
        await asyncio.sleep(0.05)
        assert session.current is claim and not ended
    claim.expiry.cancel()
    session._expire(claim)
    assert session.current is None and ended == [claim]


@in_loop
async def test_audio_that_was_handed_over_is_from_a_file_for_good():
    session = CaptureSession(lambda claim: None)
    claim = session.claim(object(), seconds=60)
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
    session = CaptureSession(lambda claim: None)
    claim = session.claim(one := object(), seconds=60)
    assert fault(claim.append, b"\0", end=True) is Fault.INVALID_PARAMS
    for _ in range(MAX_HANDED_SECONDS):
        claim.append(bytes(MAX_CHUNK), end=True)
    assert claim.seconds == MAX_HANDED_SECONDS
    assert fault(claim.append, b"\0\0", end=True) is Fault.AUDIO
    session.release(one)
    assert claim.seconds == 0
