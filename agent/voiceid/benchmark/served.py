"""A daemon of its own for a measurement: real models and vault, a pipe for microphone, everything below one folder.

``python -m voiceid.benchmark.served`` is that daemon; it reads what to do from standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

from voiceid.errors import ServiceError, VoiceIdError
from voiceid.service.client import Client
from voiceid.settings import ActivationSettings, ModelSettings, PathSettings, ServiceSettings, Settings

START_LIMIT = 120.0
"""Seconds; a busy machine is no failure."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses, by Linux' word."""

    at: float
    """Seconds on the monotonic clock."""
    cpu_seconds: float
    """Processor time since its start."""
    waited_seconds: float
    """Time that its threads wanted to run while other programs had the processor; 0 where Linux does not count it."""
    rss_mib: float
    peak_rss_mib: float
    descriptors: int


class Served:
    """The daemon, from entering to leaving the context."""

    def __init__(self, folder: Path, models: ModelSettings, *, activation: str, max_clients: int | None = None) -> None:
        """``folder`` is to be empty and on a disk; ``activation`` is the kind."""
        self.folder, self.socket, self.pipe = folder, folder / "v.sock", folder / "microphone"
        self.metrics, self.log = folder / "metrics.prom", folder / "log"
        self._task: dict[str, object] = {"models": asdict(models), "activation": activation, "folder": str(folder)}
        if max_clients is not None:
            self._task["max_clients"] = max_clients

    def __enter__(self) -> Served:
        """Start it; the pipe must be there.

        Raises:
            ServiceError: it ended, or does not answer.
        """
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "voiceid.benchmark.served"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        assert self.process.stdin is not None  # noqa: S101  (subprocess.PIPE says so)
        self.process.stdin.write(json.dumps(self._task).encode() + b"\n")
        self.process.stdin.flush()  # and left open: its end tells that nobody measures any more
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def client(self) -> Client:
        """A connection to it."""
        return Client(self.socket, timeout=START_LIMIT)

    def stop(self) -> int:
        """End it as systemd does; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            return self.process.wait(START_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def usage(self) -> Usage | None:
        """What it uses now; None where the system has no /proc."""
        proc = Path("/proc") / str(self.process.pid)
        if not proc.exists():
            return None
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        rss, peak = (int(status[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        waited = sum(_waited(task / "schedstat") for task in (proc / "task").iterdir())
        return Usage(time.monotonic(), cpu, waited, rss, peak, len(list((proc / "fd").iterdir())))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with self.client() as client:
                    client.call("hello", protocol=1)
                return
            except ServiceError:
                time.sleep(0.05)
        raise ServiceError(f"the daemon does not start: {self.log.read_text('utf-8', 'replace').strip()[-300:]}")


def _waited(schedstat: Path) -> float:
    try:
        return int(schedstat.read_text().split()[1]) / 1e9
    except OSError:  # the thread has ended, or the kernel counts nothing
        return 0.0


def _settings(task: dict[str, object]) -> Settings:
    folder = Path(str(task["folder"]))
    service = ServiceSettings(socket=folder / "v.sock")
    if isinstance(most := task.get("max_clients"), int):
        service = replace(service, max_clients=most)
    return Settings(
        models=ModelSettings(**task["models"]),  # type: ignore[arg-type]
        activation=ActivationSettings(kind=task["activation"], file=folder / "microphone"),  # type: ignore[arg-type]
        paths=PathSettings(vault=folder / "vault"),
        service=service,
    )


def _end_with_parent() -> None:
    """Stop once standard input is at its end: whoever measured is gone."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Be the daemon."""
    from voiceid.service.audit import set_up_logging
    from voiceid.service.daemon import run

    settings = _settings(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging()
    try:
        run(lambda: settings)
    except VoiceIdError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
