"""One client: reads its requests, runs them side by side, writes answers, and never waits for it without a limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from voiceid.service import limits
from voiceid.service.peers import Peer
from voiceid.service.protocol import (
    Request,
    RequestError,
    encode_error,
    encode_notification,
    encode_result,
    parse_request,
)
from voiceid.service.schema import Fault

_log = logging.getLogger(__name__)

_LAST_WORDS = 1.0
"""Seconds that a client has to take what is still to be said before its connection is closed."""
_LOOK_AGAIN = 0.1
"""Seconds after which it is seen that a client which stopped sending is gone altogether."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with who makes it."""

    request: Request
    connection: Connection
    admin: bool

    @property
    def params(self) -> dict[str, Any]:
        return self.request.params

    @property
    def peer(self) -> Peer:
        return self.connection.peer

    def notify(self, name: str, **params: Any) -> None:
        """Send a notification about this request."""
        self.connection.notify(name, request=str(self.request.request_id), **params)


Answer = Callable[[Call], Awaitable[dict[str, Any]]]


class Connection:
    """The connection of one client; :meth:`serve` runs until it is over."""

    def __init__(
        self,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        is_admin: Callable[[Peer], bool],
    ) -> None:
        self.peer = peer
        self.subscribed = False
        self._reader, self._writer = reader, writer
        self._answer, self._is_admin = answer, is_admin
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._queued = 0
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._bucket = limits.TokenBucket()
        self._faulty = 0

    @property
    def admin(self) -> bool:
        return self._is_admin(self.peer)

    async def serve(self) -> None:
        """Read until the client is gone or breaks a rule; then cancel what it asked for."""
        self._writer.transport.set_write_buffer_limits(high=0)
        writing = asyncio.create_task(self._write())
        try:
            await self._read(writing)
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
            writing.cancel()
            await asyncio.wait([writing])
            self._writer.transport.abort()

    def notify(self, name: str, **params: Any) -> None:
        """Send the notification ``name``."""
        self._send(encode_notification(name, params, admin=self.admin))

    def cancel(self, request_id: str) -> bool:
        """Cancel the request of that id; whether it was under way."""
        task = self._tasks.get(request_id)
        return task is not None and task.cancel(Fault.CANCELLED.value)

    async def stop(self) -> None:
        """Fail everything under way, say so, and close: the daemon is stopping."""
        for task in self._tasks.values():
            task.cancel(Fault.STOPPING.value)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_LAST_WORDS)
        await self._close()

    async def _close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._outgoing.join()
        self._writer.transport.abort()

    async def _read(self, writing: asyncio.Task[None]) -> None:
        wait: float | None = limits.FIRST_MESSAGE
        while not writing.done():
            try:
                line = await self._next_line(wait)
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError) as error:
                if isinstance(error, asyncio.LimitOverrunError):
                    await self._refuse(RequestError(Fault.PARSE, "the message is too long"))
                elif isinstance(error, asyncio.IncompleteReadError) and not error.partial:
                    await self._finish(writing)
                return
            wait = None
            await self._bucket.take()
            await self._room.wait()
            if not await self._accept(line):
                return

    async def _finish(self, writing: asyncio.Task[None]) -> None:
        """Answer what is under way to a client that has only stopped sending, as at the end of a pipe."""
        while self._tasks and not writing.done() and not self._gone():
            await asyncio.wait(self._tasks.values(), timeout=_LOOK_AGAIN)
        if not self._gone():
            await self._close()

    def _gone(self) -> bool:
        """Whether either side has closed the socket; one only shut down for sending can still be answered."""
        if self._writer.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket"), 0)
        return bool(poll.poll(0))

    async def _next_line(self, wait: float | None) -> bytes:
        async with asyncio.timeout(wait):
            first = await self._reader.readexactly(1)
        if first == b"\n":
            return first
        async with asyncio.timeout(limits.REST_OF_MESSAGE):
            return first + await self._reader.readuntil(b"\n")

    async def _accept(self, line: bytes) -> bool:
        """Start the request in ``line``; False where the connection is to end."""
        try:
            request = parse_request(line)
            key = str(request.request_id)
            if key in self._tasks:
                raise RequestError(Fault.INVALID_REQUEST, "a request of this id is under way", request.request_id)
            if len(self._tasks) >= limits.MAX_UNDER_WAY:
                raise RequestError(Fault.TOO_MANY, "too many requests at once; wait for an answer", request.request_id)
        except RequestError as error:
            self._faulty += error.fault in (Fault.PARSE, Fault.INVALID_REQUEST)
            if error.fault is Fault.PARSE or self._faulty >= limits.MAX_FAULTY:
                await self._refuse(error)
                return False
            self._send(encode_error(error))
            return True
        task = asyncio.create_task(self._run(request))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return True

    async def _run(self, request: Request) -> None:
        admin = self.admin
        try:
            result = await self._answer(Call(request, self, admin))
            message = encode_result(request, result, admin=admin)
        except asyncio.CancelledError as reason:
            fault = Fault(reason.args[0]) if reason.args else Fault.CANCELLED
            message = encode_error(RequestError(fault, fault.meaning, request.request_id))
        except RequestError as error:
            message = encode_error(RequestError(error.fault, str(error), request.request_id))
        except Exception:
            _log.exception("%s failed", request.method.name)
            message = encode_error(RequestError(Fault.INTERNAL, Fault.INTERNAL.meaning, request.request_id))
        self._send(message)

    async def _refuse(self, error: RequestError) -> None:
        self._send(encode_error(error))
        await self._close()

    def _send(self, message: bytes) -> None:
        if self._queued > limits.MAX_QUEUED:
            self._writer.transport.abort()
            return
        self._queued += len(message)
        if self._queued > limits.PAUSE_READING:
            self._room.clear()
        self._outgoing.put_nowait(message)

    async def _write(self) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            while True:
                message = await self._outgoing.get()
                self._writer.write(message)
                async with asyncio.timeout(limits.WRITE):
                    await self._writer.drain()
                self._queued -= len(message)
                if self._queued <= limits.PAUSE_READING:
                    self._room.set()
                self._outgoing.task_done()
        self._room.set()
        self._writer.transport.abort()
