"""Work that is asked for faster than it is done."""

from __future__ import annotations

import asyncio

import pytest

from voiceid.service.coalescing import Coalesced


class Work:
    """Counts how often it began; each piece lasts until it is let go."""

    def __init__(self):
        self.begun, self.error, self.gate = 0, None, asyncio.Event()

    async def __call__(self):
        self.begun += 1
        mine = self.begun
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return mine


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_thirty_who_ask_meanwhile_share_one_more():
    async def ask():
        coalesced = Coalesced(work := Work())
        first = asyncio.create_task(coalesced.do())
        await settle()
        others = [asyncio.create_task(coalesced.do()) for _ in range(30)]
        await settle()
        assert work.begun == 1, "one at a time"
        work.gate.set()
        assert await first == 1, "what was under way is not for those who came later"
        assert set(await asyncio.gather(*others)) == {2} and work.begun == 2
        assert await coalesced.do() == 3

    asyncio.run(ask())


def test_a_failure_is_told_to_all_who_wait_and_ends_nothing():
    async def ask():
        coalesced = Coalesced(work := Work())
        first = asyncio.create_task(coalesced.do())
        await settle()
        second, third = asyncio.create_task(coalesced.do()), asyncio.create_task(coalesced.do())
        work.error = ValueError("no such model")
        work.gate.set()
        for task in (first, second, third):
            with pytest.raises(ValueError, match="no such model"):
                await task
        work.error = None
        assert await coalesced.do() == 3

    asyncio.run(ask())


def test_who_no_longer_waits_stops_it_for_nobody():
    async def ask():
        coalesced = Coalesced(work := Work())
        first, second = asyncio.create_task(coalesced.do()), asyncio.create_task(coalesced.do())
        await settle()
        first.cancel()
        await settle()
        work.gate.set()
        assert first.cancelled() and await second == 1

    asyncio.run(ask())
