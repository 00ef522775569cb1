"""Clients that keep to the protocol."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from pathlib import Path
from typing import Any

from tools.load_service.tally import Tally
from voiceid.benchmark.feeder import Feeder
from voiceid.benchmark.service import USER
from voiceid.errors import ServiceError
from voiceid.service.client import AsyncClient, RemoteError
from voiceid.types import Samples

REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("hello", {"protocol": 1}),
    ("status", {}),
    ("users.list", {}),
    ("lockout.show", {"user": USER}),
    ("credentials.list", {}),
    ("subscribe", {}),
    ("claim", {"seconds": 1}),
    ("release", {}),
)
REQUESTS_A_CONNECTION = 10
PAUSE = (0.2, 1.5)
"""Seconds between two requests of one client, at least and at most."""
ANSWER_LIMIT = 60.0
"""Seconds after which a request counts as unanswered."""


async def be_honest(socket: Path, rng: random.Random, tally: Tally) -> None:
    """Ask this and that until cancelled, on a new connection now and then."""
    while True:
        try:
            async with await AsyncClient.open(socket) as client:
                for _ in range(REQUESTS_A_CONNECTION):
                    method, params = rng.choice(REQUESTS)
                    await _ask(client, method, params, tally)
                    await asyncio.sleep(rng.uniform(*PAUSE))
        except RemoteError as error:
            tally.refused[error.fault.value] += 1
            await asyncio.sleep(1)
        except (ServiceError, TimeoutError) as error:
            tally.unanswered[str(error) or type(error).__name__] += 1
            await asyncio.sleep(1)


async def keep_speaking(socket: Path, feeder: Feeder, commands: list[Samples], tally: Tally) -> None:
    """Verify by microphone, one command after the other, until cancelled."""

    def hear(name: str, params: dict[str, Any]) -> None:
        if params.get("stage") == "listening":
            feeder.say(commands[tally.spoken.total() % len(commands)])

    while True:
        try:
            async with await AsyncClient.open(socket, hear) as client, asyncio.timeout(ANSWER_LIMIT):
                asked = {"user": USER, "purpose": "a load", "challenge": secrets.token_bytes(16)}
                result = await client.call("verify", **asked)
                tally.spoken[result["answer"]] += 1
                await client.call("lockout.reset", user=USER)
        except RemoteError as error:  # somebody else has the session: that is how it should be
            tally.refused[error.fault.value] += 1
        except (ServiceError, TimeoutError) as error:
            tally.unanswered[f"verify: {error or type(error).__name__}"] += 1
        await asyncio.sleep(0.5)


async def _ask(client: AsyncClient, method: str, params: dict[str, Any], tally: Tally) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            await client.call(method, **params)
    except RemoteError as error:
        if error.fault.value == "too_many":
            raise
        tally.refused[error.fault.value] += 1
    tally.seconds.append(time.monotonic() - began)
