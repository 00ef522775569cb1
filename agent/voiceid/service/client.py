"""Talking to the daemon: :class:`Client` waits, :class:`AsyncClient` does not.

::

    with Client.connect(load_settings().service) as client:
        result = client.call("verify", user="ada", purpose="unlock the screen", challenge=secrets.token_bytes(32))
        result["answer"]    # "accepted", "denied", "try_again" or "locked"

``docs/service.md`` describes the methods. Bytes are given as bytes; in results they are base64url, see
:func:`voiceid.service.wire.from_base64`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from voiceid.errors import ServiceError
from voiceid.service import wire
from voiceid.service.schema import Fault
from voiceid.service.sockets import client_socket
from voiceid.settings import ServiceSettings
from voiceid.types import Samples

Hear = Callable[[str, dict[str, Any]], None]
"""Called with the name and the parameters of each notification."""

TIMEOUT = 90.0
"""Seconds without any message after which a call gives up: longer than anybody speaks."""
_CHUNK = 16_000
"""Samples of audio in one message: a second."""


class RemoteError(ServiceError):
    """The daemon refused a request, for the reason ``fault``."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Client:
    """One connection to the daemon, used by one thread."""

    def __init__(self, path: Path, *, timeout: float = TIMEOUT) -> None:
        """
        Raises:
            ServiceError: no daemon listens at ``path``, or this user may not connect.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise unreachable(path, error) from error
        self._reader = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    @classmethod
    def connect(cls, settings: ServiceSettings, *, timeout: float = TIMEOUT) -> Client:
        """Connect to the daemon that ``settings`` lead to.

        Raises:
            ServiceError: there is none, or this user may not connect.
        """
        path = client_socket(settings)
        if path is None:
            raise ServiceError(
                "no voiceid daemon runs here; start it with 'systemctl start voiceid' or 'voiceid daemon'"
            )
        return cls(path, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it what is under way and what is claimed."""
        self._reader.close()
        self._socket.close()

    def call(self, method: str, hear: Hear | None = None, /, **params: Any) -> dict[str, Any]:
        """Call ``method`` and wait for its result; ``hear`` is given the notifications that come meanwhile.

        Raises:
            RemoteError: the daemon refused.
            ServiceError: the connection is lost, or nothing came in time.
        """
        request_id = next(self._ids)
        try:
            self._socket.sendall(_request(request_id, method, params))
            while True:
                message = self._read()
                if message.get("id") == request_id or ("error" in message and message.get("id") is None):
                    return _result(message)
                _tell(message, hear)
        except TimeoutError:
            raise ServiceError(f"{method}: the daemon does not answer") from None
        except OSError as error:
            raise ServiceError(f"{method}: the connection to the daemon is lost ({error.strerror})") from error

    def listen(self) -> tuple[str, dict[str, Any]]:
        """The next notification: its name and parameters.

        Raises:
            ServiceError: the connection is lost, or nothing came in time.
        """
        try:
            while True:
                message = self._read()
                if "method" in message:
                    return str(message["method"]), dict(message.get("params", {}))
        except TimeoutError:
            raise ServiceError("no notification came in time") from None

    def hand_over(self, recordings: list[Samples]) -> None:
        """Claim the capture session and hand over ``recordings``, each float32 (n,) at 16 kHz.

        Raises:
            RemoteError: another client has the session, or it is too much audio.
        """
        self.call("claim")
        for recording in recordings:
            for pcm, end in _chunks(recording):
                self.call("audio.append", pcm=pcm, end=end)

    def _read(self) -> dict[str, Any]:
        return _parsed(self._reader.readline(wire.MAX_ANSWER + 1))


class AsyncClient:
    """One connection to the daemon for an event loop; calls run side by side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hear: Hear | None) -> None:
        """Use :meth:`open`."""
        self._reader, self._writer, self._hear = reader, writer, hear
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._failure = ServiceError("the connection to the daemon is lost")
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, path: Path, hear: Hear | None = None) -> AsyncClient:
        """Connect to the daemon at ``path``; ``hear`` is given every notification.

        Raises:
            ServiceError: no daemon listens there, or this user may not connect.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(os.fspath(path), limit=wire.MAX_ANSWER)
        except OSError as error:
            raise unreachable(path, error) from error
        return cls(reader, writer, hear)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, and with it what is under way and what is claimed."""
        self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call ``method``; cancelling the wait cancels the request.

        Raises:
            RemoteError: the daemon refused.
            ServiceError: the connection is lost.
        """
        request_id = next(self._ids)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            if self._reading.done():
                raise self._failure
            self._writer.write(_request(request_id, method, params))
            await self._writer.drain()
            return await future
        except asyncio.CancelledError:
            self._writer.write(_request(next(self._ids), "cancel", {"request": str(request_id)}))
            raise
        except OSError as error:
            raise ServiceError(f"{method}: the connection to the daemon is lost ({error.strerror})") from error
        finally:
            self._waiting.pop(request_id, None)

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = _parsed(line)
                if "error" in message and message.get("id") is None:
                    _result(message)  # it answers no request: the daemon refuses the connection
                future = self._waiting.get(message.get("id") or 0)
                if future is None:
                    _tell(message, self._hear)
                elif not future.done():
                    try:
                        future.set_result(_result(message))
                    except RemoteError as error:
                        future.set_exception(error)
        except RemoteError as error:
            self._failure = error
        except (OSError, ValueError, ServiceError) as error:
            self._failure = ServiceError(f"the connection to the daemon is lost ({error})")
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(self._failure)


def unreachable(path: Path, error: OSError) -> ServiceError:
    """Why nobody can be reached at ``path``."""
    if isinstance(error, PermissionError):
        return ServiceError(
            f"{path}: not permitted to talk to the voiceid daemon; ask to be put in the group of the socket"
        )
    return ServiceError(
        f"{path}: no voiceid daemon listens here ({error.strerror}); start it with 'systemctl start voiceid'"
    )


def _request(request_id: int, method: str, params: dict[str, Any]) -> bytes:
    given = {name: value for name, value in params.items() if value is not None}
    message = wire.encode({"jsonrpc": wire.VERSION, "id": request_id, "method": method, "params": given})
    if len(message) > wire.MAX_MESSAGE:
        raise ServiceError(f"{method}: {len(message)} bytes are too many for one message; at most {wire.MAX_MESSAGE}")
    return message


def _parsed(line: bytes) -> dict[str, Any]:
    if not line:
        raise ServiceError("the daemon closed the connection; see its log")
    if not line.endswith(b"\n"):
        raise ServiceError("the daemon's answer is cut short or too long")
    try:
        message = wire.decode(line)
    except ValueError as error:
        raise ServiceError(f"the daemon's answer cannot be read ({error})") from None
    if not _is_message(message):
        raise ServiceError(
            "the daemon's answer cannot be read (no JSON-RPC message); does a voiceid daemon listen there?"
        )
    return message


def _is_message(message: dict[str, Any]) -> bool:
    """Whether ``message`` is a notification or the answer to a request of this client."""
    if "method" in message:
        return isinstance(message.get("params", {}), dict)
    if not isinstance(message.get("id"), int | None):
        return False
    error = message.get("error")
    if error is None:
        return isinstance(message.get("result"), dict)
    data = error.get("data", {}) if isinstance(error, dict) else None
    return isinstance(data, dict) and isinstance(data.get("name", ""), str)


def _result(message: dict[str, Any]) -> dict[str, Any]:
    error = message.get("error")
    if error is None:
        return dict(message["result"])
    name = error.get("data", {}).get("name", "")
    fault = Fault(name) if name in set(Fault) else Fault.INTERNAL
    raise RemoteError(fault, str(error.get("message", "")))


def _tell(message: dict[str, Any], hear: Hear | None) -> None:
    if hear is not None and "method" in message:
        hear(str(message["method"]), dict(message.get("params", {})))


def _chunks(recording: Samples) -> list[tuple[bytes, bool]]:
    """16-bit pieces of ``recording``, the last of them marked."""
    pcm = (recording.clip(-1, 1) * 32767).round().astype("<i2")
    pieces = [pcm[at : at + _CHUNK].tobytes() for at in range(0, len(pcm), _CHUNK)]
    return [(piece, number == len(pieces) - 1) for number, piece in enumerate(pieces)]
