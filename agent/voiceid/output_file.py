"""Writing results to files: whole or not at all, and for nobody but the user.

One rule for every file that is the user's: a new one gets mode 0600 under any umask, an old one keeps the mode it has.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write ``data`` to ``path`` atomically; an old file stays as it was if anything goes wrong.

    A new file gets ``mode``. A symbolic link is followed; a pipe or a terminal is written to, never replaced. Disks and
    sockets are refused.

    Raises:
        OSError: with ``path`` as its file name.
    """
    temporary: Path | None = None
    target = Path(os.path.realpath(path))
    try:
        if _is_stream(target):
            target.write_bytes(data)
            return
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
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


def check_file(path: Path) -> None:
    """Fail as :func:`write_file` would, before the work is done whose result is to be written.

    Raises:
        OSError: with ``path`` as its file name.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_stream(target):
            check_folder(target.parent)
        elif not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_folder(folder: Path) -> None:
    """Fail where no file can be made in ``folder``.

    Raises:
        OSError: it is missing, no folder, read-only, or not this user's to write.
    """
    read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    if not folder.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if read_only or not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EROFS if read_only else errno.EACCES
        raise OSError(code, os.strerror(code), str(folder))


def _is_stream(target: Path) -> bool:
    """Whether ``target`` takes what is written to it one after the other, and keeps nothing.

    Raises:
        OSError: it is neither that nor a file.
    """
    if target.is_block_device() or target.is_socket():
        raise OSError(errno.EINVAL, "is a disk or a socket, no file")
    return target.is_char_device() or target.is_fifo()
