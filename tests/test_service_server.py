"""The server with real sockets: many clients, some of them hostile, and none that holds up the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket

import pytest

from voiceid.errors import ServiceError, UnknownUserError, VaultError
from voiceid.service import limits, wire
from voiceid.service.client import AsyncClient, Client, RemoteError
from voiceid.service.general import General
from voiceid.service.methods import METHODS
from voiceid.service.permissions import Permissions
from voiceid.service.schema import Fault
from voiceid.service.server import Server
from voiceid.service.sockets import OwnSocket
from voiceid.settings import ServiceSettings

STATUS = {
    "protocol": 1,
    "version": "0",
    "microphone": "file",
    "activation": "file",
    "busy": False,
    "uptime": 1.0,
    "problems": ["for admins"],
}


class Ordinary(Permissions):
    """Takes nobody for an admin, though tests may run as root."""

    def is_admin(self, peer):
        return False


class Counting:
    """Counts what the server tells."""

    def __init__(self):
        self.results, self.most = [], 0

    def request(self, method, result, seconds):
        self.results.append((method, result))

    def clients(self, count):
        self.most = max(self.most, count)


class Served:
    """A server in this event loop, with a few methods that do something."""

    def __init__(self, folder, *, permissions=None, max_clients=256):
        self.path = folder / "s.sock"
        self.observer, self.closed, self.cancelled = Counting(), [], 0
        handlers = {method.name: self.nothing for method in METHODS} | {
            "status": self.status,
            "verify": self.wait,
            "reload": self.fail,
            "users.show": self.unknown,
            "metrics": self.large,
            "users.list": self.wrong,
            "subscribe": self.subscribe,
            "cancel": General(self.nothing, self.nothing, str).cancel,
        }
        self.server = Server(
            handlers,
            permissions or Permissions(ServiceSettings()),
            self.owner_of,
            self.observer,
            max_clients=max_clients,
            on_close=self.closed.append,
        )

    async def __aenter__(self):
        self.socket = OwnSocket(self.path)
        await self.server.start(self.socket.listener)
        return self

    async def __aexit__(self, *error):
        await self.server.stop()
        self.socket.close()

    async def owner_of(self, call):
        return os.getuid() if call.params["user"] == "ada" else None

    async def nothing(self, call):
        return {"done": True}

    async def status(self, call):
        return STATUS

    async def wait(self, call):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {}

    async def fail(self, call):
        raise VaultError("/secret/path: disk full")

    async def unknown(self, call):
        raise UnknownUserError("'bob' is not enrolled on this device")

    async def large(self, call):
        return {"text": "x" * 200_000}

    async def wrong(self, call):
        raise KeyError("a fault of our own")

    async def subscribe(self, call):
        call.connection.subscribed = True
        return {"done": True}

    async def raw(self, data=b""):
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        writer.write(data)
        return reader, writer


def served(test):
    """Run the coroutine function ``test`` in an event loop of its own."""

    def run(tmp_path):
        async def limited():
            async with asyncio.timeout(120):
                await test(tmp_path)

        asyncio.run(limited())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


VERIFY = {"user": "ada", "purpose": "a test", "challenge": bytes(16)}


async def refused(client, method, /, **params):
    with pytest.raises(RemoteError) as caught:
        await client.call(method, **params)
    return caught.value


@served
async def test_requests_are_answered(tmp_path):
    async with Served(tmp_path) as s, await AsyncClient.open(s.path) as client:
        assert await client.call("status") == STATUS
        assert await client.call("subscribe") == {"done": True}
        assert s.observer.results == [("status", "ok"), ("subscribe", "ok")]


@served
async def test_ordinary_clients_hear_less(tmp_path):
    permissions = Ordinary(ServiceSettings())
    async with Served(tmp_path, permissions=permissions) as s, await AsyncClient.open(s.path) as client:
        assert "problems" not in await client.call("status")
        assert (await refused(client, "reload")).fault is Fault.NOT_PERMITTED
        unknown = await refused(client, "users.show", user="bob")
        forbidden = await refused(client, "users.delete", user="bob")
        assert unknown.fault is forbidden.fault is Fault.NOT_PERMITTED
        assert str(unknown).split(":")[1] == str(forbidden).split(":")[1]


@served
async def test_errors_keep_paths_from_ordinary_clients(tmp_path):
    class Reloader(Ordinary):
        def check(self, peer, method, params, owner):
            return

    (tmp_path / "1").mkdir(), (tmp_path / "2").mkdir()
    permissions = Reloader(ServiceSettings())
    async with Served(tmp_path / "1", permissions=permissions) as s, await AsyncClient.open(s.path) as client:
        error = await refused(client, "reload")
        assert error.fault is Fault.VAULT and "secret" not in str(error)
    async with Served(tmp_path / "2") as s, await AsyncClient.open(s.path) as client:
        assert "disk full" in str(await refused(client, "reload")), "an admin is told"
        assert (await refused(client, "users.show", user="bob")).fault is Fault.UNKNOWN_USER


@served
async def test_a_fault_of_our_own_is_an_answer_and_no_crash(tmp_path):
    async with Served(tmp_path) as s, await AsyncClient.open(s.path) as client:
        error = await refused(client, "users.list")
        assert error.fault is Fault.INTERNAL and "fault of our own" not in str(error)
        assert await client.call("status") == STATUS


@served
async def test_cancel_is_at_once_and_from_one_connection_only(tmp_path):
    async with Served(tmp_path) as s, await AsyncClient.open(s.path) as one, await AsyncClient.open(s.path) as two:
        waiting = asyncio.create_task(one.call("verify", **VERIFY))
        await one.call("status")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(waiting)
        assert not waiting.done()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await one.call("status")
        assert s.cancelled == 1
        assert await two.call("status") == STATUS


@served
async def test_the_end_of_a_connection_cancels_its_requests(tmp_path):
    async with Served(tmp_path) as s:
        client = await AsyncClient.open(s.path)
        waiting = asyncio.create_task(client.call("verify", **VERIFY))
        await client.call("status")
        await client.close()
        with pytest.raises(ServiceError):
            await waiting
        while not s.closed:
            await asyncio.sleep(0.01)
        assert s.cancelled == 1


STATUS_LINE = b'{"jsonrpc":"2.0","id":1,"method":"status"}\n'
VERIFY_LINE = (
    b'{"jsonrpc":"2.0","id":2,"method":"verify",'
    b'"params":{"user":"ada","purpose":"a test","challenge":"AAAAAAAAAAAAAAAAAAAAAA"}}\n'
)


@served
async def test_whoever_only_ends_sending_is_answered_as_from_a_shell_pipe(tmp_path):
    async with Served(tmp_path) as s:
        for _ in range(20):
            reader, writer = await s.raw(STATUS_LINE)
            writer.write_eof()
            assert json.loads(await reader.readline())["result"] == STATUS
            assert await reader.read() == b""
            writer.close()


@served
async def test_whoever_ends_sending_and_then_goes_has_his_requests_cancelled(tmp_path):
    async with Served(tmp_path) as s:
        reader, writer = await s.raw(VERIFY_LINE)
        writer.write_eof()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await reader.read()
        assert not s.cancelled
        writer.close()
        while not s.closed:
            await asyncio.sleep(0.01)
        assert s.cancelled == 1


@served
async def test_stopping_answers_what_is_under_way(tmp_path):
    async with Served(tmp_path) as s:
        client = await AsyncClient.open(s.path)
        waiting = asyncio.create_task(client.call("verify", **VERIFY))
        await client.call("status")
        await s.server.stop()
        with pytest.raises(RemoteError) as caught:
            await waiting
        assert caught.value.fault is Fault.STOPPING
        await client.close()


@served
async def test_so_many_requests_at_once_and_no_more(tmp_path):
    async with Served(tmp_path) as s:
        requests = [
            wire.encode({"jsonrpc": "2.0", "id": n, "method": "verify", "params": VERIFY})
            for n in range(limits.MAX_UNDER_WAY + 1)
        ]
        reader, writer = await s.raw(b"".join(requests) + requests[0])
        answers = [json.loads(await reader.readline()) for _ in range(2)]
        assert [a["error"]["data"]["name"] for a in answers] == ["too_many", "invalid_request"]
        writer.close()


@served
async def test_events_reach_subscribers_and_details_only_admins(tmp_path):
    async with Served(tmp_path, permissions=Ordinary(ServiceSettings())) as s:
        heard = []
        async with await AsyncClient.open(s.path, lambda name, params: heard.append((name, params))) as client:
            await client.call("subscribe")
            s.server.broadcast("decision", "denied", detail={"voiceid": 0.4}, admins=True)
            s.server.broadcast("microphone", "listening", detail={"device": "x"})
            await client.call("status")
            assert heard == [("event", {"kind": "microphone", "state": "listening"})]


@served
async def test_connections_are_capped_and_some_are_kept_for_admins(tmp_path):
    async with Served(tmp_path, permissions=Ordinary(ServiceSettings()), max_clients=16) as s:
        held = [await s.raw() for _ in range(8)]
        while len(s.server.connections) < 8:
            await asyncio.sleep(0.01)
        reader, writer = await s.raw()
        assert json.loads(await reader.readline())["error"]["data"]["name"] == "too_many"
        writer.close()
        for _, other in held:
            other.close()
        while s.server.connections:
            await asyncio.sleep(0.01)
        async with await AsyncClient.open(s.path) as client:
            assert await client.call("status")


@pytest.mark.parametrize(
    "data", [b"garbage\n", b"\x00\xff" * 100 + b"\n", b"[" * 5000 + b"\n", b"[]\n", b"GET / HTTP/1.1\r\n"]
)
def test_garbage_is_answered_once_and_cut_off(tmp_path, data):
    @served
    async def run(folder):
        async with Served(folder) as s:
            reader, _ = await s.raw(data)
            assert json.loads(await reader.readline())["error"]["data"]["name"] == "parse"
            assert await reader.read() == b""

    run(tmp_path)


@served
async def test_a_frame_without_end_is_cut_off_at_its_limit(tmp_path):
    async with Served(tmp_path) as s:
        reader, writer = await s.raw()
        with contextlib.suppress(OSError):
            for _ in range(100):
                writer.write(b"x" * wire.MAX_MESSAGE)
                await writer.drain()
        with contextlib.suppress(OSError):
            assert b'"parse"' in await reader.read()
        assert writer.transport.is_closing() or reader.at_eof()


@served
async def test_whoever_never_reads_is_cut_off_and_takes_little_memory(tmp_path):
    async with Served(tmp_path) as s:
        mute = socket.socket(socket.AF_UNIX)
        mute.connect(str(s.path))
        mute.setblocking(False)
        while not s.server.connections:
            await asyncio.sleep(0.01)
        (connection,) = s.server.connections
        request = wire.encode({"jsonrpc": "2.0", "id": 0, "method": "metrics"})
        with contextlib.suppress(OSError):
            mute.send(b"".join(request.replace(b":0", b":%d" % n) for n in range(1, 9)))
        async with await AsyncClient.open(s.path) as honest:
            for _ in range(3):
                assert await honest.call("status")
        assert connection._queued <= limits.MAX_QUEUED + 200_100
        mute.close()


@served
async def test_a_subscriber_that_does_not_read_is_cut_off(tmp_path):
    async with Served(tmp_path) as s:
        _, writer = await s.raw(b'{"jsonrpc":"2.0","id":1,"method":"subscribe"}\n')
        writer.transport.pause_reading()
        while not any(c.subscribed for c in s.server.connections):
            await asyncio.sleep(0.01)
        for _ in range(20_000):
            s.server.broadcast("microphone", "x" * 200)
            if not s.server.connections:
                break
            await asyncio.sleep(0)
        assert not s.server.connections
        writer.close()


@served
async def test_half_open_clients_are_dropped(tmp_path):
    async with Served(tmp_path) as s:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "FIRST_MESSAGE", 0.1)
            patch.setattr(limits, "REST_OF_MESSAGE", 0.1)
            mute, _ = await s.raw()
            half, _ = await s.raw(b'{"jsonrpc"')
            assert await mute.read() == b"" and await half.read() == b""


@served
async def test_a_fast_client_is_slowed_down_but_answered(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits.TokenBucket.__init__, "__defaults__", (1000.0, 5.0))
        async with Served(tmp_path) as s, await AsyncClient.open(s.path) as client:
            for _ in range(40):
                await client.call("status")


@served
async def test_honest_clients_are_all_answered_among_hostile_ones(tmp_path):
    async with Served(tmp_path) as s:
        hostile = [
            await s.raw(data)
            for data in (
                b"\x00garbage\n",
                b"x" * 200_000,
                b'{"jsonrpc":"2.0","id',
                b'{"jsonrpc":"2.0","id":1,"method":"metrics"}\n' * 50,
            )
            for _ in range(5)
        ]

        async def honest():
            async with await AsyncClient.open(s.path) as client:
                for _ in range(5):
                    assert await client.call("status") == STATUS

        await asyncio.gather(*(honest() for _ in range(40)))
        assert s.observer.results.count(("status", "ok")) == 200
        for _, writer in hostile:
            writer.transport.abort()
        while s.server.connections:
            await asyncio.sleep(0.01)


def test_the_waiting_client_says_why_nobody_is_there(tmp_path):
    with pytest.raises(ServiceError, match="no voiceid daemon"):
        Client.connect(ServiceSettings(socket=tmp_path / "none.sock"))
    with pytest.raises(ServiceError, match="no voiceid daemon listens here"):
        Client(tmp_path / "none.sock")
    OwnSocket(tmp_path / "stale.sock").listener.close()
    with pytest.raises(ServiceError, match="no voiceid daemon listens here"):
        Client(tmp_path / "stale.sock")


def test_the_waiting_client_survives_a_daemon_that_breaks_off(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.sock"))
        listener.listen()
        for answer in (b"", b"garbage\n", b'{"jsonrpc":"2.0"'):
            client = Client(tmp_path / "s.sock", timeout=5)
            connection, _ = listener.accept()
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            with client, pytest.raises(ServiceError, match="daemon"):
                client.call("status")
            connection.close()


@served
async def test_two_hundred_who_come_at_once_are_all_answered(tmp_path):
    async def ask(path):
        async with await AsyncClient.open(path) as client:
            return await client.call("status")

    async with Served(tmp_path) as s:
        answers = await asyncio.gather(*(ask(s.path) for _ in range(200)))
    assert answers == [STATUS] * 200


@served
async def test_who_finds_no_room_is_told_so(tmp_path):
    async with Served(tmp_path, max_clients=1) as s, await AsyncClient.open(s.path) as first:
        await first.call("status")
        async with await AsyncClient.open(s.path) as second:
            for _ in range(2):
                assert (await refused(second, "status")).fault is Fault.TOO_MANY
