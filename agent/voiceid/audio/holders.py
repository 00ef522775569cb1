"""Which programs hold the microphone, as far as the system tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 2.0
"""Seconds that a sound server may take to answer."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A program that captures."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def describe_holders(proc: Path = Path("/proc")) -> str:
    """Who holds the microphone, in words, and what to do."""
    holders = [*alsa_holders(proc), *server_clients()]
    if not holders:
        return "another program uses it; end that program"
    names = " and ".join(dict.fromkeys(map(str, holders)))
    return f"{names} uses it; end that, or choose the sound server's device if that is one"


def alsa_holders(proc: Path = Path("/proc")) -> tuple[Holder, ...]:
    """Owners of ALSA's open capture streams, from ``/proc/asound``."""
    found = []
    for status in sorted(proc.glob("asound/card*/pcm*c/sub*/status")):
        if owner := re.search(r"^owner_pid\s*:\s*(\d+)", _text(status), re.MULTILINE):
            pid = int(owner[1])
            found.append(Holder(_text(proc / str(pid) / "comm").strip() or "a program", pid))
    return tuple(found)


def server_clients() -> tuple[Holder, ...]:
    """Programs that capture through PulseAudio or PipeWire, from ``pactl``."""
    if shutil.which("pactl") is None:
        return ()
    command = ["pactl", "--format=json", "list", "source-outputs"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
        outputs = json.loads(ran.stdout or "[]")
        properties = [output["properties"] for output in outputs]
        return tuple(
            Holder(p.get("application.name", "a program"), int(p["application.process.id"]))
            for p in properties
            if "application.process.id" in p
        )
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return ()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
