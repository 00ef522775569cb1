"""The resident daemon: wires the ear, the judge, the vault and the server together, and lives with systemd.

Microphone audio is read in a thread of its own, scored in another, the vault is read and written in a third; the event
loop only passes messages, so that no client can hold up anything but itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voiceid.audio.capture_state import CaptureEvent
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.files import explain
from voiceid.enrolment.opening import open_vault
from voiceid.enrolment.record_folder import DAEMON_LOCK
from voiceid.enrolment.vault import Vault
from voiceid.errors import ServiceError, VoiceIdError
from voiceid.pipeline import Pipeline
from voiceid.service.audit import Audit
from voiceid.service.ceremonies import Ceremonies
from voiceid.service.coalescing import Coalesced
from voiceid.service.connection import Call
from voiceid.service.detail import detail_of
from voiceid.service.enrolling import Enrolling
from voiceid.service.general import Condition, General
from voiceid.service.hardening import check_vault_folder, forbid_dumps
from voiceid.service.heap import trim_heap
from voiceid.service.hearing import Hearing
from voiceid.service.judge import Judge, Verdict
from voiceid.service.lockout import Lockout
from voiceid.service.metrics import Metrics
from voiceid.service.notify import Notifier
from voiceid.service.permissions import Permissions
from voiceid.service.records import Blocking, Records
from voiceid.service.server import Server
from voiceid.service.sockets import OwnSocket, activated_socket, daemon_socket, hold, runtime_folder
from voiceid.service.storage import Storage
from voiceid.settings import Settings

_log = logging.getLogger(__name__)

TICK = 5.0
"""Seconds between two looks at the daemon's own health, and two writings of the metrics."""
STUCK = 30.0
"""Seconds of one piece of scoring or storing after which the watchdog is fed no more; half of its own limit if less."""
FIXED = ("capture", "activation", "paths")
"""Sections that only count at the start."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a daemon begins with: everything that can fail does so before the first client is served."""

    settings: Settings
    load: Callable[[], Settings]
    """Reads the settings again."""
    vault: Vault
    device_key: DeviceKey
    pipeline: Pipeline
    guard: int
    """Holds the vault against a second daemon."""

    @classmethod
    def prepare(cls, load: Callable[[], Settings]) -> Start:
        """Check and open everything.

        Raises:
            VoiceIdError: it says what, and what to do.
        """
        settings = load()
        check_vault_folder(settings.paths.vault)
        vault, device_key = open_vault(settings.paths, create=True)
        with explain(vault.folder):
            guard = hold(vault.folder / DAEMON_LOCK, f"{vault.folder}: another voiceid daemon serves this vault")
        return cls(settings, load, vault, device_key, Pipeline.load(settings), guard)


def run(load: Callable[[], Settings]) -> None:
    """Be the daemon until SIGTERM or SIGINT.

    Raises:
        VoiceIdError: it cannot start.
    """
    forbid_dumps()
    notifier = Notifier()
    listener = activated_socket()
    start = Start.prepare(load)
    asyncio.run(_serve(start, notifier, listener))


async def _serve(start: Start, notifier: Notifier, listener: socket.socket | None) -> None:
    daemon = Daemon(start, notifier)
    if listener is not None:
        await daemon.run(listener)
        return
    own = OwnSocket(daemon_socket(start.settings.service))
    try:
        await daemon.run(own.listener)
    finally:
        own.close()


class Daemon:
    """One running daemon."""

    def __init__(self, start: Start, notifier: Notifier) -> None:
        self._settings, self._load, self._vault, self._notifier = start.settings, start.load, start.vault, notifier
        self._storage = Storage()
        self._metrics = Metrics()
        self._audit = Audit(self._name_in_log)
        lockout = Lockout(start.vault)
        self._problems = (*start.vault.problems(), *lockout.restart())
        judge = Judge(start.pipeline, start.vault, start.device_key, lockout)
        self._ceremonies = Ceremonies(
            judge,
            self._audit,
            self._metrics,
            is_granted=lambda connection, rp_id: self._server.permissions.is_granted(connection.peer, rp_id),
            announce=self._announce,
        )
        records = Records(start.vault, lockout, self._audit, lambda: judge.pipeline.judges)
        general = General(self._condition, self.reload, self._metrics_text)
        handlers = {
            **general.handlers(),
            **self._ceremonies.handlers(),
            "enrol": Enrolling(start.vault, lockout, self._ceremonies, self._audit).enrol,
            **{name: self._stored(handler) for name, handler in records.handlers().items()},
        }
        self._server = Server(
            handlers,
            Permissions(start.settings.service),
            lambda call: self._storage.run_for(call.peer.uid, records.owner_of, call.params["user"]),
            self._metrics,
            max_clients=start.settings.service.max_clients,
            on_close=self._ceremonies.session.release,
        )
        self._stop = asyncio.Event()
        self._reloading = Coalesced(self._reload)

    async def run(self, listener: socket.socket) -> None:
        """Serve until told to stop.

        Raises:
            VoiceIdError: the activation or the metrics port cannot be used.
        """
        for problem in self._problems:
            _log.error("%s", problem)
        hearing = Hearing(
            self._settings,
            on_spontaneous=self._ceremonies.spontaneous,
            on_candidate=self._ceremonies.candidate,
            on_dropped=self._ceremonies.dropped,
            on_microphone=self._microphone,
        )
        self._ceremonies.hearing = self._hearing = hearing
        try:
            if self._settings.service.metrics_port is not None:
                self._metrics.serve(self._settings.service.metrics_port)
            self._handle_signals()
            await self._server.start(listener)
            ticking = asyncio.create_task(self._tick())
            self._notifier.ready()
            _log.info("ready: %s", listener.getsockname())
            await self._stop.wait()
            _log.info("stopping")
            self._notifier.stopping()
            ticking.cancel()
            await self._server.stop()
        finally:
            hearing.close()
            await self._ceremonies.close()
            self._storage.close()

    async def reload(self) -> tuple[str, ...]:
        """Read settings and models again; returns the sections that changed but need a restart.

        One reload runs and one waits at most, whatever is asked.

        Raises:
            VoiceIdError: they cannot be used; everything is as before.
        """
        return await self._reloading.do()

    async def _reload(self) -> tuple[str, ...]:
        self._notifier.reloading()
        try:
            settings, pipeline = await asyncio.to_thread(self._load_again)
        except VoiceIdError as error:
            _log.error("reload failed, the former settings and models stay: %s", error)
            self._metrics.reload("failed")
            self._server.broadcast("reload", "failed", detail={"reason": str(error)})
            raise
        finally:
            self._notifier.ready()
        changed = tuple(name for name in FIXED if getattr(settings, name) != getattr(self._settings, name))
        self._ceremonies.judge.pipeline = pipeline
        self._server.permissions = Permissions(settings.service)
        self._ceremonies.session.idle = settings.service.claim_idle
        self._settings = replace(settings, **{name: getattr(self._settings, name) for name in FIXED})
        self._metrics.reload("ok")
        self._server.broadcast("reload", "ok")
        _log.info("reloaded%s", f"; restart for: {', '.join(changed)}" if changed else "")
        return changed

    def _load_again(self) -> tuple[Settings, Pipeline]:
        settings = self._load()
        return settings, Pipeline.load(settings)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_on_signal)

    def _reload_on_signal(self) -> None:
        async def quietly() -> None:
            with contextlib.suppress(VoiceIdError):
                await self.reload()

        self._signalled = asyncio.create_task(quietly())

    async def _tick(self) -> None:
        """Feed the watchdog as long as every thread comes round, and write the metrics."""
        watchdog = self._notifier.watchdog_seconds
        pause = min(TICK, watchdog / 3) if watchdog else TICK
        while True:
            if await self._healthy():
                self._notifier.alive()
            await self._write_metrics()
            await asyncio.sleep(pause)

    async def _healthy(self) -> bool:
        """Whether the reading, scoring and storing threads answer."""
        if not self._hearing.ear.alive:
            _log.error("the thread that reads the microphone is stuck")
            return False
        try:
            async with asyncio.timeout(min(STUCK, (self._notifier.watchdog_seconds or 2 * STUCK) / 2)):
                await self._ceremonies.score(trim_heap)  # between two decisions, whose buffers it would take away
                await self._storage.run(time.monotonic)
        except TimeoutError:
            _log.error("the scoring or storing thread is stuck")
            return False
        return True

    async def _write_metrics(self) -> None:
        self._metrics.microphone(self._hearing.ear.state, self._hearing.ear.counters)
        path = self._metrics_path()
        if path is None:
            return
        try:
            await self._storage.run(self._metrics.write, path)
        except OSError as error:
            _log.warning("%s: the metrics cannot be written (%s)", path, error.strerror)

    def _metrics_path(self) -> Path | None:
        if self._settings.service.metrics_file is not None:
            return self._settings.service.metrics_file
        if self._settings.service.socket is not None:
            return self._settings.service.socket.with_name("metrics.prom")
        with contextlib.suppress(ServiceError):
            return runtime_folder() / "metrics.prom"
        return None

    def _metrics_text(self) -> str:
        self._metrics.microphone(self._hearing.ear.state, self._hearing.ear.counters)
        return self._metrics.text()

    async def _condition(self, call: Call) -> Condition:
        ear, busy = self._hearing.ear, self._ceremonies.session.current is not None
        clients = len(self._server.connections)
        for_admins = {"clients": clients, **await self._storage.run(self._inner_condition)} if call.admin else {}
        return Condition(ear.state, ear.activation, busy, ear.device, for_admins)

    def _inner_condition(self) -> dict[str, Any]:
        judges = self._ceremonies.judge.pipeline.judges
        models = (judges.identity, judges.spoofing, judges.liveness, judges.fusion)
        users = self._vault.list_users()
        problems = [
            f"{user.name!r}: the template belongs to another identity model; run 'voiceid users renew {user.name}'"
            for user in users
            if user.needs_renewal(judges.identity.card.sha256)
        ]
        return {
            "users": len(users),
            "models": {model.card.role: f"{model.card.name} {model.card.version}" for model in models},
            "problems": [*self._vault.problems(), *problems, *filter(None, [self._hearing.ear.problem])],
        }

    def _microphone(self, event: CaptureEvent) -> None:
        self._server.broadcast("microphone", event.state.value)
        self._notifier.status(f"microphone: {event.state.value}")

    def _announce(self, verdict: Verdict) -> None:
        detail = {"decision": verdict.decision_id, **detail_of(verdict)}
        self._server.broadcast("decision", verdict.answer.value, detail=detail, admins=True)

    def _name_in_log(self, name: str) -> str:
        return name if self._settings.service.log_names else self._vault.pseudonym(name)

    def _stored(self, handler: Blocking) -> Callable[[Call], Awaitable[dict[str, Any]]]:
        async def run(call: Call) -> dict[str, Any]:
            return await self._storage.run_for(call.peer.uid, handler, call)

        return run
