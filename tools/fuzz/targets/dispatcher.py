"""The whole daemon behind its socket, real models and vault included: no request may be answered with ``internal``."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import numpy as np
import soundfile

from tools.fuzz.enrolled import KEY_BYTES, enrol
from tools.fuzz.target import Target
from tools.fuzz.targets.protocol import WORDS, request
from voiceid.service.daemon import Daemon, Start
from voiceid.service.methods import METHODS
from voiceid.service.notify import Notifier
from voiceid.service.schema import Fault
from voiceid.service.sockets import OwnSocket
from voiceid.settings import ActivationSettings, PathSettings, ServiceSettings, Settings

PATIENCE = 0.02
"""Seconds to wait for one more answer."""


def make(folder: Path) -> Target:
    enrol(folder)
    recording, key = folder / "silence.wav", folder / "device.key"
    soundfile.write(recording, np.zeros(32_000, np.float32), 16_000)
    key.write_bytes(KEY_BYTES)
    key.chmod(0o600)
    settings = Settings(
        activation=ActivationSettings(kind="file", file=recording, start_timeout=1.0),
        paths=PathSettings(vault=folder / "vault", device_key=key),
        service=ServiceSettings(socket=folder / "v.sock"),
    )
    loop = asyncio.new_event_loop()
    serving = _Serving(settings, folder / "v.sock")
    loop.run_until_complete(serving.begin())
    seeds = tuple(request(method) + b"\n" for method in METHODS if method.name not in ("reload", "pin.set"))
    return Target(lambda data: loop.run_until_complete(serving.send(data)), seeds, 4096, WORDS)


class _Serving:
    """The daemon in this loop; it only lives while something is sent to it."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self._settings, self._path = settings, path

    async def begin(self) -> None:
        own = OwnSocket(self._path)
        self._daemon = asyncio.create_task(Daemon(Start.prepare(lambda: self._settings), Notifier()).run(own.listener))
        await asyncio.sleep(1)

    async def send(self, data: bytes) -> None:
        """Send ``data`` and read answers until none comes any more."""
        if self._daemon.done():
            raise AssertionError(f"the daemon ended: {self._daemon}")
        reader, writer = await asyncio.open_unix_connection(str(self._path), limit=1 << 20)
        try:
            writer.write(data + b"\n")
            with contextlib.suppress(TimeoutError, OSError):
                while line := await asyncio.wait_for(reader.readline(), PATIENCE):
                    self._check(line)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    def _check(self, line: bytes) -> None:
        error = json.loads(line).get("error", {})
        if error.get("data", {}).get("name") == Fault.INTERNAL.value:
            raise AssertionError(f"a fault of the daemon's own: {line!r}")
