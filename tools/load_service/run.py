"""One load: a daemon, its clients, and what it used before and after."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.load_service.honest import ANSWER_LIMIT, be_honest, keep_speaking
from tools.load_service.hostile import be_hostile
from tools.load_service.tally import Tally
from voiceid import __version__
from voiceid.benchmark.feeder import Feeder
from voiceid.benchmark.machine import Machine, describe_machine
from voiceid.benchmark.served import Served, Usage
from voiceid.benchmark.service import enrol
from voiceid.benchmark.speech import collect_speech
from voiceid.errors import ServiceError
from voiceid.settings import Settings
from voiceid.types import Samples

WARM_UP = 20.0
"""Seconds of the same load, if it is no shorter, before memory is looked at: buffers have their size then."""
SETTLE = 300.0
"""Seconds within which the daemon must have let go of all clients; a busy machine is no failure."""
GROWTH_MIB = 8.0
"""Growth of resident memory that counts as a leak: more than it varies by from one look to the next."""
COMMANDS = 5


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load came to; :attr:`faults` is empty if all is well."""

    version: str
    machine: Machine
    clients: int
    hostile: int
    seconds: float
    requests: int
    """Of honest clients, answered or plainly refused."""
    p50_ms: float
    p95_ms: float
    most_ms: float
    refused: dict[str, int]
    unanswered: dict[str, int]
    spoken: dict[str, int]
    """Answers to commands said into the microphone meanwhile."""
    attacks: dict[str, int]
    rss_mib: tuple[float, float, float, float]
    """Idle at first, after warming up, after the load, and the peak."""
    descriptors: tuple[int, int, int]
    """Idle at first, after warming up, after the load."""
    frames: int
    frames_dropped: int
    longest_wait_ms: float
    """Audio that waited for the daemon's reader at most."""
    faults: tuple[str, ...]


def run_load(settings: Settings, files: Sequence[Path], *, clients: int, hostile: int, seconds: float) -> LoadReport:
    """Put ``clients``, of which ``hostile`` are, on a daemon of its own for ``seconds``; one of the others speaks.

    Raises:
        VoiceIdError: no speech, or the daemon does not start.
    """
    machine, tally = describe_machine(), Tally()
    commands = list(collect_speech(files, COMMANDS * 3.0).reshape(COMMANDS, -1))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voiceid-load-")))
        served = Served(folder, settings.models, activation="voice")
        feeder = stack.enter_context(Feeder(served.pipe))
        stack.enter_context(served)
        with served.client() as client:
            enrol(client, files)
        first = _usage(served)
        warm_up = min(WARM_UP, seconds)
        asyncio.run(_load(served, feeder, commands, Tally(), clients=clients, hostile=hostile, seconds=warm_up))
        warm = _settled(served)
        asyncio.run(_load(served, feeder, commands, tally, clients=clients, hostile=hostile, seconds=seconds))
        last = _settled(served)
        dropped, said = feeder.dropped, served.log.read_text("utf-8", "replace")
    p50, p95, most = np.percentile(np.asarray(tally.seconds or [np.inf]) * 1e3, [50, 95, 100])
    before = max(first.rss_mib, warm.rss_mib)  # idle, what loading the models left has not been given back yet
    faults = {
        f"honest requests without an answer: {dict(tally.unanswered)}": bool(tally.unanswered),
        "no honest request was answered": not tally.seconds,
        "nobody was heard": not tally.spoken,
        f"the microphone's reader was starved: {dropped} frames dropped": dropped > 0,
        f"memory grew from {before:.1f} to {last.rss_mib:.1f} MiB": last.rss_mib - before > GROWTH_MIB,
        f"descriptors grew from {warm.descriptors} to {last.descriptors}": last.descriptors > warm.descriptors,
        "the daemon's log has a traceback": "Traceback" in said,
        "a request failed inside the daemon": "internal" in tally.refused,
    }
    return LoadReport(
        __version__,
        machine,
        clients,
        hostile,
        seconds,
        len(tally.seconds),
        float(p50),
        float(p95),
        float(most),
        dict(tally.refused),
        dict(tally.unanswered),
        dict(tally.spoken),
        dict(tally.attacks),
        (first.rss_mib, warm.rss_mib, last.rss_mib, last.peak_rss_mib),
        (first.descriptors, warm.descriptors, last.descriptors),
        feeder.frames,
        dropped,
        feeder.waiting * 1e3,
        tuple(fault for fault, there in faults.items() if there),
    )


async def _load(
    served: Served,
    feeder: Feeder,
    commands: list[Samples],
    tally: Tally,
    *,
    clients: int,
    hostile: int,
    seconds: float,
) -> None:
    coroutines = [keep_speaking(served.socket, feeder, commands, tally)]
    coroutines += [be_honest(served.socket, random.Random(seed), tally) for seed in range(clients - hostile - 1)]
    coroutines += [be_hostile(served.socket, random.Random(seed), tally) for seed in range(hostile)]
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        until = time.monotonic() + ANSWER_LIMIT
        while not (done or tally.spoken or tally.unanswered) and time.monotonic() < until:
            await asyncio.sleep(0.1)  # at least one command is to be heard to its end
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()  # a fault of the load itself


def _settled(served: Served) -> Usage:
    """What the daemon uses once all its clients are gone, and it has given back what it does not need."""
    deadline = time.monotonic() + SETTLE
    with served.client() as client:
        while client.call("status")["clients"] > 1:
            if time.monotonic() > deadline:
                raise ServiceError(f"clients are still counted {SETTLE:.0f} s after they went")
            time.sleep(0.2)
    for _ in range(2):  # at least one whole round of the daemon's looks at itself, which end with the metrics
        written = served.metrics.stat().st_mtime_ns
        while served.metrics.stat().st_mtime_ns == written:
            if time.monotonic() > deadline:
                raise ServiceError(f"the daemon wrote no metrics for {SETTLE:.0f} s")
            time.sleep(0.2)
    return _usage(served)


def _usage(served: Served) -> Usage:
    usage = served.usage()
    if usage is None or served.process.poll() is not None:
        raise ServiceError("the daemon is gone, or this system has no /proc")
    return usage
