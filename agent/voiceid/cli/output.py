"""Writing: results to standard output (text or JSON), everything else to standard error."""

from __future__ import annotations

import base64
import dataclasses
import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PIPE_WIDTH = 200
"""Columns of a table that goes to a file or pipe."""


def settle_streams() -> None:
    """Put the null device in place of standard streams that the caller closed, lest a file of ours should get there.

    Raises:
        OSError: standard output is one of them, so that no result could be told.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:  # in the order of their descriptors: each gets the lowest that is free
        setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"))
    if "stdout" in closed:
        raise OSError(errno.EBADF, "closed; send it to a file or to /dev/null", "standard output")


def drop_unwritten() -> None:
    """Give up what standard output or error does not take: Python would try again at its end, and exit with 120."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def stdout() -> Console:
    """Standard output; coloured only on a terminal and without ``NO_COLOR``."""
    return _console(error=False)


def stderr() -> Console:
    """Standard error, for progress, warnings and errors."""
    return _console(error=True)


def _console(*, error: bool) -> Console:
    terminal = (sys.stderr if error else sys.stdout).isatty()
    return Console(stderr=error, highlight=False, width=None if terminal else PIPE_WIDTH)


def write_json(value: Any) -> None:
    """Write ``value`` (dataclasses, arrays, enums, paths and bytes allowed) as one JSON document."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def counted(count: int, noun: str) -> str:
    """``1 user``, ``2 users``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plain(value: Any) -> Any:
    """``value`` in JSON's types: bytes become base64url without padding, non-finite numbers null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Bar]:
    """A progress bar on standard error that goes away when done; nothing where that is no terminal."""
    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display:
        yield Bar(display, display.add_task(description, total=total))


class Bar:
    """One running progress bar."""

    def __init__(self, display: Progress, task: Any) -> None:
        self._display, self._task = display, task
        self.console = display.console
        """Where to print while the bar is shown."""

    def advance(self, description: str | None = None, step: float = 1) -> None:
        """Move on by ``step``, naming what comes next."""
        self._display.update(self._task, advance=step, description=description)

    def set_total(self, total: float) -> None:
        """Say how far there is to go."""
        self._display.update(self._task, total=total)

    def to(self, completed: float, description: str | None = None) -> None:
        """Move to ``completed``."""
        self._display.update(self._task, completed=completed, description=description)
