"""The machine that a measurement was made on, and the memory of this process."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure must be read beside."""

    platform: str
    cpu: str
    cores: int
    """Cores that this process may use."""
    memory_mib: int | None
    load: float | None
    """Processes that wanted to run over the last minute: well above 0 means that others disturbed the measurement."""
    python: str
    onnxruntime: str

    @property
    def is_pi_4(self) -> bool:
        return "Raspberry Pi 4" in self.cpu


def describe_machine() -> Machine:
    """This machine."""
    import onnxruntime

    return Machine(
        platform=platform.platform(),
        cpu=_cpu_model(),
        cores=usable_cores(),
        memory_mib=_total_memory_mib(),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        python=platform.python_version(),
        onnxruntime=str(onnxruntime.__version__),
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident_mib() -> tuple[float, float]:
    """Resident memory of this process, now and at its peak, in MiB.

    From ``/proc`` where there is one: its peak starts anew with each program, while getrusage's inherits the parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        values = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return tuple(int(values[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))  # type: ignore[return-value]
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (MIB if sys.platform == "darwin" else 1024)
    return peak, peak


def reset_peak() -> None:
    """Let :func:`resident_mib` report the peak from now on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _cpu_model() -> str:
    board = Path("/proc/device-tree/model")
    if board.exists():
        return board.read_text().rstrip("\0\n")
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _total_memory_mib() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    except (ValueError, OSError):
        return None
