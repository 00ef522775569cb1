"""Clients that break the rules, each in its own way."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from tools.load_service.tally import Tally
from voiceid.service.wire import MAX_MESSAGE

HOLD = (0.5, 5.0)
"""Seconds that a connection is held where holding it is the point."""
PAUSE = 0.1
"""Seconds between two attacks of one client."""


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """Lines that are no messages."""
    for _ in range(20):
        writer.write(rng.randbytes(rng.randrange(1, 400)) + b"\n")
        await writer.drain()
    await reader.read()


async def huge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """A message without an end."""
    for _ in range(32):
        writer.write(b"x" * MAX_MESSAGE)
        await writer.drain()
    await reader.read()


async def half_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """The beginning of a message, or nothing, and then silence."""
    writer.write(rng.choice((b"", b'{"jsonrpc"')))
    await asyncio.sleep(rng.uniform(*HOLD))


async def never_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """Requests with long answers that are left lying."""
    for number in range(1000):
        writer.write(b'{"jsonrpc":"2.0","id":%d,"method":"metrics"}\n' % number)
        async with asyncio.timeout(HOLD[1]):
            await writer.drain()
    await asyncio.sleep(rng.uniform(*HOLD))


async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """Gone in the middle of a message, or of a request that holds the session."""
    writer.write(rng.choice((b'{"jsonrpc":"2.0","id":1,"me', b'{"jsonrpc":"2.0","id":1,"method":"claim"}\n')))
    await writer.drain()


async def wrong(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """Well formed, but nothing that there is."""
    for number in range(30):
        writer.write(b'{"jsonrpc":"2.0","id":%d,"method":"verify","params":{"user":"nobody","audio":1}}\n' % number)
        await writer.drain()
        await reader.readline()


ATTACKS: tuple[Callable[[asyncio.StreamReader, asyncio.StreamWriter, random.Random], Awaitable[None]], ...] = (
    garbage,
    huge,
    half_open,
    never_reading,
    gone,
    wrong,
)


async def be_hostile(socket: Path, rng: random.Random, tally: Tally) -> None:
    """One attack after the other, until cancelled."""
    while True:
        attack = rng.choice(ATTACKS)
        tally.attacks[attack.__name__] += 1
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            reader, writer = await asyncio.open_unix_connection(str(socket), limit=1024)
            try:
                await attack(reader, writer, rng)
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE)
