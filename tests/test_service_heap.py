"""Memory that the C library keeps goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from voiceid.service import heap

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
