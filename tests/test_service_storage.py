"""The storage thread's order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from voiceid.service.storage import Storage


def test_who_asks_for_much_keeps_others_waiting_for_one_piece_only() -> None:
    async def run() -> list[int]:
        storage, done, begin = Storage(), list[int](), threading.Event()

        def work(uid: int) -> None:
            begin.wait()
            done.append(uid)

        many = [asyncio.create_task(storage.run_for(1, work, 1)) for _ in range(20)]
        await asyncio.sleep(0)
        one = asyncio.create_task(storage.run_for(2, work, 2))
        await asyncio.sleep(0)
        begin.set()
        await asyncio.gather(*many, one)
        storage.close()
        return done

    done = asyncio.run(run())
    assert len(done) == 21 and done[:2] == [1, 2]


def test_a_cancelled_or_failed_turn_is_followed_by_the_next() -> None:
    async def run() -> int:
        storage, begin = Storage(), threading.Event()
        first = asyncio.create_task(storage.run_for(1, begin.wait))
        waiting = asyncio.create_task(storage.run_for(1, begin.wait))
        last = asyncio.create_task(storage.run_for(1, int, "3"))
        await asyncio.sleep(0)
        waiting.cancel()
        begin.set()
        with pytest.raises(ValueError, match="invalid literal"):
            await storage.run_for(1, int, "no number")
        answer = await last
        assert await first
        storage.close()
        return answer

    assert asyncio.run(run()) == 3
