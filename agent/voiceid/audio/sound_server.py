"""Whether a sound server can be reached: PipeWire and PulseAudio live in a user's session."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

TIMEOUT = 1.0
"""Seconds that a server may take to accept a connection."""


def server_sockets(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Where the sound servers of this session would listen; nothing without a session."""
    sockets: dict[str, Path] = {}
    session = environment.get("XDG_RUNTIME_DIR")
    if pipewire := environment.get("PIPEWIRE_RUNTIME_DIR") or session:
        sockets["PipeWire"] = Path(pipewire) / "pipewire-0"
    if pulse := environment.get("PULSE_RUNTIME_PATH"):
        sockets["PulseAudio"] = Path(pulse) / "native"
    elif session:
        sockets["PulseAudio"] = Path(session) / "pulse" / "native"
    return sockets


def reachable_servers(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Names of the sound servers that accept a connection (PipeWire answers as PulseAudio, too)."""
    return tuple(name for name, path in server_sockets(environment).items() if _accepts(path))


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT)
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True
