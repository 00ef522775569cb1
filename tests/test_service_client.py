"""The client before something that is no voiceid daemon."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voiceid.errors import ServiceError
from voiceid.service.client import AsyncClient, Client

ODD = (
    b"garbage\n",
    b"[1]\n",
    b'{"id":1}\n',
    b'{"id":1,"result":5}\n',
    b'{"id":1,"error":"x"}\n',
    b'{"id":1,"error":{"data":"x"}}\n',
    b'{"id":1,"error":{"data":{"name":["x"]}}}\n',
    b'{"id":[1],"result":{}}\n',
    b'{"method":"progress","params":[1]}\n',
    b'{"id":1,"result":{}',
    b"",
)


@contextmanager
def answering(data: bytes) -> Iterator[Path]:
    """A socket where whatever is asked is answered with ``data``, once."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "s"
        listener.bind(str(path))
        listener.listen(1)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        yield path
        thread.join(10)


@pytest.mark.parametrize("data", ODD)
def test_what_is_no_answer_is_a_typed_error(data: bytes) -> None:
    with (
        answering(data) as path,
        Client(path, timeout=10) as client,
        pytest.raises(ServiceError, match=r"the daemon.s answer|closed the connection"),
    ):
        client.call("status", lambda *_: None)


@pytest.mark.parametrize("data", ODD)
def test_what_is_no_answer_is_a_typed_error_side_by_side(data: bytes) -> None:
    async def ask(path: Path) -> None:
        async with await AsyncClient.open(path, lambda *_: None) as client:
            await asyncio.wait_for(client.call("status"), 10)

    with answering(data) as path, pytest.raises(ServiceError, match="connection to the daemon is lost"):
        asyncio.run(ask(path))


def test_an_answer_is_one() -> None:
    data = b'{"method":"event","params":{"kind":"reload"}}\n{"jsonrpc":"2.0","id":1,"result":{"done":true}}\n'
    heard: list[tuple[str, dict]] = []
    with answering(data) as path, Client(path, timeout=10) as client:
        assert client.call("status", lambda name, params: heard.append((name, params))) == {"done": True}
    assert heard == [("event", {"kind": "reload"})]
