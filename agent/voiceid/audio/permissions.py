"""Whether this process may use the machine's sound cards."""

from __future__ import annotations

import os
from pathlib import Path

ACCESS_ADVICE = "add the user to the group audio (sudo usermod -aG audio USER) and log in again"


def capture_devices(folder: Path = Path("/dev/snd")) -> tuple[Path, ...]:
    """ALSA's capture devices (Linux), whoever may use them."""
    return tuple(sorted(folder.glob("pcmC*D*c")))


def forbidden_devices(folder: Path = Path("/dev/snd")) -> tuple[Path, ...]:
    """Those of :func:`capture_devices` that this process may not open."""
    return tuple(device for device in capture_devices(folder) if not os.access(device, os.R_OK | os.W_OK))
