"""Where work runs: in this process, on a local Dask cluster, or on a Dask cluster elsewhere."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from tools.studies.errors import StudyError
from voiceid.errors import MissingPackageError

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""A function like ``map``."""
AHEAD = 3
"""Tasks a worker has waiting: few, so that results never pile up."""
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
def workers_for(arguments: argparse.Namespace) -> Iterator[Run]:
    """The workers that the arguments ask for."""
    with open_workers(arguments.scheduler, arguments.workers, arguments.memory) as run:
        yield run


@contextmanager
def open_workers(scheduler: str | None = None, workers: int = 1, memory: str = "2GiB") -> Iterator[Run]:
    """A function like ``map`` whose results come in the order in which they are ready.

    Raises:
        StudyError: no scheduler at the address, or not at least one worker.
        MissingPackageError: Dask distributed is not installed.
    """
    if workers < 1:
        raise StudyError(f"{workers} workers; at least one must work (--workers)")
    if scheduler is None and workers == 1:
        yield map
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingPackageError("several workers need Dask: pip install 'voiceid[tools]', or --workers 1") from error
    if scheduler is not None:
        try:
            with Client(scheduler, timeout="10s") as client:
                yield _on(client)
        except OSError as error:
            raise StudyError(f"no Dask scheduler answers at {scheduler} ({error})") from error
        return
    with (
        LocalCluster(workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield _on(client)


def _on(client: Any) -> Run:
    from distributed import as_completed

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        waiting = iter(items)
        shared = client.submit(_itself, function, pure=False)  # unlike scattered data, made again if it is lost
        threads = max(1, sum(client.nthreads().values()))

        def submit(number: int) -> list[Any]:
            return [client.submit(_apply, shared, i, pure=False, retries=RETRIES) for i in islice(waiting, number)]

        ready = as_completed(submit(AHEAD * threads))
        for future in ready:
            yield future.result()
            future.release()
            for following in submit(1):
                ready.add(following)

    return run


def _apply(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _itself(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function
