"""Running one function over many files, in processes, with a progress bar and an account of what failed."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from tools.evaluation.audio import UnfitError
from tools.evaluation.options import EvaluationError
from voiceid.errors import AudioError


class HasPath(Protocol):
    """Work on a file: a row of an index, or a recipe for one."""

    @property
    def path(self) -> Path: ...


T = TypeVar("T", bound=HasPath)
Work = Callable[[Any], Any]
_work: Work | None = None


@dataclass(slots=True)
class Account:
    """What became of the chosen files: ``dropped`` by reason (on purpose), ``failed`` by path (by accident)."""

    chosen: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)

    def failure_share(self) -> float:
        return len(self.failed) / max(1, self.chosen)

    def as_json(self) -> dict[str, Any]:
        """For the report: counts, and the first failures by name."""
        shown = dict(list(self.failed.items())[:20])
        return {"chosen": self.chosen, "dropped": dict(self.dropped), "failed": len(self.failed), "failures": shown}


def each(
    make_work: Callable[[], Work], items: Sequence[T], *, jobs: int, account: Account, label: str
) -> list[tuple[T, Any]]:
    """Apply the function that ``make_work`` makes (once a process) to every item.

    Items whose audio is unreadable or unfit are left out and entered in ``account``. ``make_work`` must be picklable.

    Raises:
        EvaluationError: not one item was usable.
    """
    account.chosen += len(items)
    results: list[tuple[T, Any]] = []
    jobs = min(jobs, max(1, len(items) // 8))
    for item, value, dropped, failed in tqdm(
        _run(make_work, items, jobs), total=len(items), desc=label, file=sys.stderr, unit="file", disable=None
    ):
        if dropped:
            account.dropped[dropped] += 1
        elif failed:
            account.failed[str(item.path)] = failed
        else:
            results.append((item, value))
    if items and not results:
        reasons = [f"{n} {reason}" for reason, n in account.dropped.items()] + list(account.failed.values())[:3]
        raise EvaluationError(f"none of {len(items)} files could be used: {'; '.join(reasons)}")
    return results


def _run(make_work: Callable[[], Work], items: Sequence[T], jobs: int) -> Iterator[tuple[T, Any, str, str]]:
    if jobs == 1:
        work = make_work()
        yield from (_attempt(work, item) for item in items)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start, initargs=(make_work,)) as pool:
        yield from pool.map(_attempt_here, items, chunksize=4)


def _start(make_work: Callable[[], Work]) -> None:
    global _work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = make_work()


def _end_with_parent() -> None:
    """A worker whose parent was killed would compute on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt_here(item: T) -> tuple[T, Any, str, str]:
    assert _work is not None  # noqa: S101 - set by the pool's initializer
    return _attempt(_work, item)


def _attempt(work: Work, item: T) -> tuple[T, Any, str, str]:
    try:
        return item, work(item), "", ""
    except UnfitError as reason:
        return item, None, str(reason), ""
    except AudioError as error:
        return item, None, "", str(error)


def finite(vector: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """``vector`` as float32; a model that answers NaN or infinity is an error, not a score.

    Raises:
        EvaluationError: not finite.
    """
    array = np.asarray(vector, np.float32)
    if not np.isfinite(array).all():
        raise EvaluationError("the model gave a score that is not finite; check the card's model")
    return array
