"""Starts real daemons and talks to them."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from voiceid.audio import read_waveform
from voiceid.credentials.keys import load_device_key
from voiceid.enrolment.vault import Vault
from voiceid.service.client import Client
from voiceid.types import Samples

RP = "shop.example.org"
OWNER, STRANGER = "ls1089", "ls121"

START_LIMIT = 120.0
"""Seconds; a busy machine is no failure."""


class Running:
    """One daemon process with its vault, socket and log under ``folder``."""

    def __init__(self, folder: Path, *, settings: str = "", environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.socket, self.vault, self.log = folder / "s" / "v.sock", folder / "vault", folder / "log"
        self.config, self.recording = folder / "config.toml", folder / "microphone.wav"
        self.settings, self.environment = settings, environment or {}
        self.activation = f'kind = "file"\nfile = "{self.recording}"'
        self.launcher: tuple[str, ...] = ()
        """What the command is started by."""
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self) -> None:
        """Write the configuration file."""
        self.config.write_text(
            f'[paths]\nvault = "{self.vault}"\n[activation]\n{self.activation}\n'
            f'[service]\nsocket = "{self.socket}"\n{self.settings}\n',
            "utf-8",
        )

    def start(self, *, wait: bool = True) -> Running:
        """Start it; with ``wait``, until it answers."""
        self.configure()
        command = [
            *self.launcher,
            sys.executable,
            "-c",
            "from voiceid.cli.start import main; main()",
            "--config",
            str(self.config),
            "daemon",
        ]
        environment = {**os.environ, **self.environment}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, close_fds=not self.launcher
            )
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Wait for the socket.

        Raises:
            AssertionError: the process ended, or took too long.
        """
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            assert self.process is not None and self.process.poll() is None, self.said()
            try:
                with Client(self.socket, timeout=START_LIMIT) as client:
                    client.call("hello", protocol=1)
                    return
            except Exception:
                time.sleep(0.05)
        self.kill()
        raise AssertionError(f"the daemon did not start: {self.said()}")

    def client(self) -> Client:
        """A connection to it."""
        return Client(self.socket, timeout=START_LIMIT)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit status."""
        assert self.process is not None
        return self.process.wait(START_LIMIT)

    def stop(self) -> int:
        """End it as systemd does; its exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it as a power cut does."""
        self.signal(signal.SIGKILL)
        self.wait()

    def vault_bytes(self) -> dict[Path, bytes]:
        """What the files of the vault hold."""
        return {path: path.read_bytes() for path in self.vault.rglob("*") if path.is_file()}

    def said(self) -> str:
        """Its log."""
        return self.log.read_text("utf-8") if self.log.exists() else ""


def samples(files: list[Path]) -> list[Samples]:
    return [read_waveform(file).samples for file in files]


def enrol(client: Client, name: str, files: list[Path], **more: object) -> dict:
    client.hand_over(samples(files))
    result = client.call("enrol", user=name, audio=True, **more)
    client.call("release")
    return result


def say(client: Client, file: Path, method: str = "verify", **params: object) -> dict:
    """Hand ``file`` over and call ``method`` on it."""
    client.hand_over(samples([file]))
    try:
        if method == "verify":
            params = {"purpose": "a test", "challenge": secrets.token_bytes(16), **params}
        return client.call(method, audio=True, **params)
    finally:
        client.call("release")


def open_vault(running: Running) -> Vault:
    return Vault.open(running.vault, load_device_key(running.vault / "device.key"))
