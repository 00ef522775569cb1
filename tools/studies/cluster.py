"""Where work runs: in this process, on a local Dask cluster, or on a Dask cluster elsewhere."""

from __future__ import annotations

import argparse
import logging
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tools.studies.errors import StudyError
from voiceid.errors import MissingPackageError

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""A function like ``map``."""
AHEAD = 2
"""Tasks a worker has waiting: few, so that results never pile up."""
PATIENT = {
    "distributed.comm.timeouts.connect": "10 minutes",
    "distributed.comm.timeouts.tcp": "10 minutes",
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.preload": ["tools.studies.interrupts"],
}
"""Settings of a local cluster: on a busy machine processes answer late, and one that dies is noticed all the same;
Ctrl-C is for this process alone."""
RETRIES = 2
"""Times a task that failed runs again; tasks of a worker that was killed are given to another besides."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``--scheduler``, ``--workers`` and ``--memory``."""
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, such as tcp://host:8786")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes of the local cluster; 1: none, run here"
    )
    parser.add_argument("--memory", default="2GiB", help="limit of each local worker (default 2GiB)")


@contextmanager
def workers_for(arguments: argparse.Namespace) -> Iterator[Workers]:
    """The workers that the arguments ask for."""
    with open_workers(arguments.scheduler, arguments.workers, arguments.memory) as run:
        yield run


@contextmanager
def open_workers(scheduler: str | None = None, workers: int = 1, memory: str = "2GiB") -> Iterator[Workers]:
    """Workers that apply functions as ``map`` does; results come in the order in which they are ready.

    Raises:
        StudyError: no scheduler at the address, not at least one worker, a limit of memory that is none, or workers
            that are killed whenever they try.
        MissingPackageError: Dask distributed is not installed.
    """
    if workers < 1:
        raise StudyError(f"{workers} workers; at least one must work (--workers)")
    if scheduler is None and workers == 1:
        yield Workers()
        return
    try:
        import dask.utils
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingPackageError("several workers need Dask: pip install 'voiceid[tools]', or --workers 1") from error
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise StudyError(f"no Dask scheduler answers at {scheduler} ({error})") from error
        with client:
            yield Workers(client)
        return
    try:
        dask.utils.parse_bytes(memory)
    except ValueError as error:
        raise StudyError(f"a memory of {memory!r} for each worker; write it as 2GiB (--memory)") from error
    with (
        dask.config.set(PATIENT),
        LocalCluster(workers, threads_per_worker=1, memory_limit=memory, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        try:
            yield Workers(client)
        except KeyboardInterrupt:
            logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its workers end in tracebacks
            raise


@dataclass(frozen=True, slots=True)
class Used:
    """Greatest resident memory in MiB and processor seconds of a process up to now."""

    peak_mib: float
    cpu_seconds: float


def used() -> Used:
    """By this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Used(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that apply a function to items: those of a Dask ``client``, or this one."""

    client: Any = None

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(function, items) if self.client is None else self._submit(function, items)

    def _submit(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        from concurrent.futures import CancelledError

        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        waiting = iter(items)
        shared = self.client.submit(_itself, function, pure=False)  # unlike scattered data, made again if it is lost
        threads = max(1, sum(self.client.nthreads().values()))

        def submit(number: int) -> list[Any]:
            return [self.client.submit(_apply, shared, i, pure=False, retries=RETRIES) for i in islice(waiting, number)]

        ready = as_completed(submit(AHEAD * threads))
        for future in ready:
            try:
                result = future.result()
            except KilledWorker as error:
                raise StudyError(
                    "workers were killed again and again at one task, perhaps for want of memory; take fewer workers "
                    "or a higher limit (--memory) and run it again"
                ) from error
            except CancelledError as error:
                raise StudyError("the Dask scheduler was lost; start it and run it again") from error
            yield result
            future.release()
            for following in submit(1):
                ready.add(following)

    def used(self) -> dict[str, Used]:
        """What each worker that is alive has used, by address."""
        return {"here": used()} if self.client is None else dict(self.client.run(used))

    def scheduler_used(self) -> Used | None:
        """What the scheduler has used; None where this process does the work."""
        return None if self.client is None else self.client.run_on_scheduler(used)


def _apply(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _itself(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function
