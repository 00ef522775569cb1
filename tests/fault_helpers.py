"""Kills processes at every moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

FORK = multiprocessing.get_context("fork")

STEPS = ("fsync", "replace", "rename", "unlink", "link", "mkdir", "rmdir")
"""Calls of the operating system between which a file system changes."""


def killed(moment, function, *arguments):
    """Run ``function(report, *arguments)`` in a process, kill it ``moment`` seconds after its first report.

    Returns all reports, 4 bytes each.
    """
    reader, writer = os.pipe()
    worker = FORK.Process(
        target=function, args=(lambda number: os.write(writer, number.to_bytes(4, "big")), *arguments)
    )
    worker.start()
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        first = stream.read(4)
        time.sleep(moment)
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        data = first + stream.read()
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]


def killed_before_step(number, function, *arguments):
    """Run ``function(*arguments)`` in a process that is killed right before its step ``number`` on the file system.

    Returns whether it was killed; else the function came to its end.
    """
    worker = FORK.Process(target=_run_up_to, args=(number, function, *arguments))
    worker.start()
    worker.join(60)
    assert worker.exitcode in (0, -signal.SIGKILL), worker.exitcode
    return worker.exitcode != 0


def _run_up_to(number, function, *arguments):
    left = [number]
    for name in STEPS:
        setattr(os, name, _counting(getattr(os, name), left))
    function(*arguments)


def _counting(step, left):
    def counted(*arguments, **more):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments, **more)

    return counted
