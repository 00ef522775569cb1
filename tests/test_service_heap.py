"""Memory that the C library keeps goes back to the system."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from voiceid.service import heap
from voiceid.service.daemon import Daemon

FRAGMENTED = """
import numpy, pathlib
from voiceid.service.heap import trim_heap

def resident():
    return next(int(line.split()[1]) for line in pathlib.Path("/proc/self/status").open() if line.startswith("VmRSS"))

buffers = [numpy.ones(12_000) for _ in range(500)]
del buffers[:-1]
kept = resident()
trim_heap()
print(kept - resident())
"""


@pytest.mark.skipif(
    not hasattr(heap._LIBRARY, "malloc_trim") or not Path("/proc/self/status").exists(), reason="needs glibc and /proc"
)
def test_buffers_below_one_that_stays_are_given_back():
    ran = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True)
    assert int(ran.stdout) > 40_000, "KiB of 47 000 that were freed"


def test_a_library_that_cannot_is_left_alone(monkeypatch):
    monkeypatch.setattr(heap, "_LIBRARY", object())
    heap.trim_heap()


def test_the_daemon_gives_back_whenever_it_looks_at_its_health():
    asked = []

    async def run(function):
        asked.append(function)

    daemon = Daemon.__new__(Daemon)
    daemon._hearing = SimpleNamespace(ear=SimpleNamespace(alive=True))
    daemon._notifier = SimpleNamespace(watchdog_seconds=None)
    daemon._ceremonies, daemon._storage = SimpleNamespace(score=run), SimpleNamespace(run=run)
    assert asyncio.run(daemon._healthy()) and asked[0] is heap.trim_heap
