"""The storage thread: reads and writes the vault, one piece of work at a time, and every uid in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Storage:
    """Runs blocking functions for the event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storage")
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run ``function`` behind what waits already."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def run_for(self, uid: int, function: Callable[..., T], *arguments: object) -> T:
        """As :meth:`run`, on behalf of ``uid``, of which one at a time waits for the thread: who asks for much, as for
        the slow hash of a PIN on every connection, keeps nobody else waiting for all of it.
        """
        async with self._turns.setdefault(uid, asyncio.Lock()):
            return await self.run(function, *arguments)

    def close(self) -> None:
        """Finish what is under way, drop what waits."""
        self._thread.shutdown(wait=True, cancel_futures=True)
