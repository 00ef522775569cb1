"""What systemd is told: ready, alive, reloading, stopping (``sd_notify``); nothing where nobody asks."""

from __future__ import annotations

import contextlib
import os
import socket
import time


class Notifier:
    """Sends to ``$NOTIFY_SOCKET``, which is taken from the environment."""

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        microseconds, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        ours = microseconds.isdigit() and pid in ("", str(os.getpid()))
        self.watchdog_seconds = int(microseconds) / 1e6 if ours else None
        """How long systemd waits for a sign of life; None where it does not."""

    def ready(self) -> None:
        self._send("READY=1\nSTATUS=ready")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``."""
        self._send(f"STATUS={text}")

    def reloading(self) -> None:
        """Followed by :meth:`ready`."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}\nSTATUS=reloading")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(1)
            sender.sendto(message.encode(), address)
