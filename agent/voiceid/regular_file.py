"""Reading what a user names as a file but may be something else: a pipe without an end, a device, a folder."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open the regular file at ``path`` for reading, without waiting for anything; a link is followed.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def read_regular(path: Path, limit: int) -> bytes:
    """The content of the regular file at ``path``.

    Raises:
        OSError: as :func:`open_regular`, or it holds more than ``limit`` bytes.
    """
    with open_regular(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EOVERFLOW, f"larger than {limit} bytes", str(path))
    return data
