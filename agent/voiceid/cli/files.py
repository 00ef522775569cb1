"""Writing results to files: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write ``data`` to ``path`` atomically; an old file stays as it was if anything goes wrong.

    A symbolic link is followed; a device or a pipe is written to, never replaced.

    Raises:
        OSError: with ``path`` as its file name.
    """
    temporary: Path | None = None
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
            target.write_bytes(data)
            return
        descriptor, name = tempfile.mkstemp(prefix=".tmp-", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
