"""Accepts clients, checks what they may do, and hands their requests to the methods' handlers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from voiceid.errors import ServiceError, VoiceIdError
from voiceid.service import limits, wire
from voiceid.service.connection import Call, Connection
from voiceid.service.even_time import even_out
from voiceid.service.faults import request_error
from voiceid.service.methods import METHODS
from voiceid.service.peers import Peer, peer_of
from voiceid.service.permissions import Permissions
from voiceid.service.protocol import RequestError, encode_error
from voiceid.service.schema import Access, Fault

Handler = Callable[[Call], Awaitable[dict[str, Any]]]

_log = logging.getLogger(__name__)

_NEEDS_VAULT = frozenset({Access.OWNER, Access.CREATOR})


class Observer(Protocol):
    """What counts requests and clients."""

    def request(self, method: str, result: str, seconds: float) -> None: ...

    def clients(self, count: int) -> None: ...


class Server:
    """The socket's side of the daemon."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        permissions: Permissions,
        owner_of: Callable[[Call], Awaitable[int | None]],
        observer: Observer,
        *,
        max_clients: int,
        on_close: Callable[[Connection], object],
    ) -> None:
        """``owner_of`` tells the uid that owns the enrolment a call is about; ``on_close`` hears of every end."""
        if missing := {method.name for method in METHODS} ^ set(handlers):
            raise AssertionError(f"methods and handlers differ: {sorted(missing)}")
        self.permissions = permissions
        self._handlers, self._owner_of, self._observer = handlers, owner_of, observer
        self._max_clients, self._on_close = max_clients, on_close
        self._connections: set[Connection] = set()
        self._serving: asyncio.Server | None = None
        self._stopping = False

    @property
    def connections(self) -> frozenset[Connection]:
        """Everybody connected."""
        return frozenset(self._connections)

    async def start(self, listener: socket.socket) -> None:
        """Accept clients on ``listener`` from now on."""
        listener.setblocking(False)
        more: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        # As many may wait to be accepted as are served: an event loop's client cannot wait for room in a full queue.
        self._serving = await asyncio.start_unix_server(
            self._accept, sock=listener, limit=wire.MAX_MESSAGE, backlog=self._max_clients, **more
        )

    async def stop(self) -> None:
        """Accept nobody any more, answer what is under way with ``stopping``, and close."""
        self._stopping = True
        if self._serving is not None:
            self._serving.close()
        await asyncio.gather(*(connection.stop() for connection in self.connections))

    def broadcast(self, kind: str, state: str, *, detail: dict[str, Any] | None = None, admins: bool = False) -> None:
        """Tell all subscribers, or the admins among them, of an event."""
        more = {} if detail is None else {"detail": detail}
        for connection in self.connections:
            if connection.subscribed and (connection.admin or not admins):
                connection.notify("event", kind=kind, state=state, **more)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            peer = peer_of(writer.get_extra_info("socket"))
        except ServiceError as error:
            _log.warning("a connection was refused: %s", error)
            writer.transport.abort()
            return
        if not self._has_room_for(peer):
            with contextlib.suppress(OSError):
                writer.write(encode_error(RequestError(Fault.TOO_MANY, Fault.TOO_MANY.meaning)))
            writer.close()
            return
        connection = Connection(peer, reader, writer, self._answer, self.permissions_of)
        self._connections.add(connection)
        self._observer.clients(len(self._connections))
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)
            self._on_close(connection)
            self._observer.clients(len(self._connections))

    def permissions_of(self, peer: Peer) -> bool:
        """Whether ``peer`` is an admin, by the rules of the moment."""
        return self.permissions.is_admin(peer)

    def _has_room_for(self, peer: Peer) -> bool:
        """One uid gets half of the connections, so that others are served, and some are kept for admins."""
        count = len(self._connections)
        if self.permissions.is_admin(peer):
            return count < self._max_clients
        of_uid = Counter(connection.peer.uid for connection in self._connections)[peer.uid]
        return count < self._max_clients - limits.RESERVED_FOR_ADMINS and of_uid < self._max_clients // 2

    async def _answer(self, call: Call) -> dict[str, Any]:
        method, began, result = call.request.method, time.monotonic(), "ok"
        try:
            if self._stopping:
                raise RequestError(Fault.STOPPING, Fault.STOPPING.meaning)
            await self._check(call)
            return await self._handlers[method.name](call)
        except VoiceIdError as error:
            failure = request_error(error, method.name, admin=call.admin)
            result = failure.fault.value
            if failure.fault is Fault.NOT_PERMITTED:
                await even_out(began)
            if failure.fault in (Fault.VAULT, Fault.INTERNAL):
                _log.error("%s: %s", method.name, error)
            raise failure from error
        except asyncio.CancelledError:
            result = Fault.CANCELLED.value
            raise
        except Exception:
            result = Fault.INTERNAL.value
            raise
        finally:
            self._observer.request(method.name, result, time.monotonic() - began)

    async def _check(self, call: Call) -> None:
        method, params = call.request.method, call.params
        owner = await self._owner_of(call) if _NEEDS_VAULT & set(method.access) and not call.admin else None
        self.permissions.check(call.peer, method, params, owner)
