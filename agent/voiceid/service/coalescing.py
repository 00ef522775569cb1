"""Work that many may ask for at once and that is done no more often than it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Coalesced(Generic[T]):
    """Does ``work`` one at a time; whoever asks while it is being done shares the next one.

    What is under way may have begun before the reason to ask for it, and does not count.
    """

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._under_way: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def do(self) -> T:
        """The result of work that begins from now on, which goes on if the wait for it is cancelled.

        Raises:
            Exception: what the work raised.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._under_way))
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next)

    async def _after(self, former: asyncio.Task[T] | None) -> T:
        if former is not None:
            await asyncio.wait([former])
        self._under_way, self._next = self._next, None
        return await self._work()
