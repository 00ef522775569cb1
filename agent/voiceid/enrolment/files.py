"""Files that survive power cuts and curious neighbours: private, written atomically, locked, deleted for good."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from voiceid.errors import VaultError
from voiceid.output_file import check_folder
from voiceid.regular_file import read_regular

TEMPORARY_PREFIX = ".tmp-"
"""Names of files under way and of remains to be shredded; whatever a crash leaves starts with it."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` and its missing parents with mode 0700 under any umask, or give an existing one that mode.

    Raises:
        VaultError: it cannot be made, or is a link that another user left here.
    """
    with explain(folder):
        _refuse_planted_link(folder)
        if not folder.parent.exists():
            make_private_folder(folder.parent)
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                inherit_owner(descriptor, folder.parent)
            finally:
                os.close(descriptor)
        if folder.stat().st_mode & 0o777 != 0o700:
            folder.chmod(0o700)


def inherit_owner(descriptor: int, folder: Path) -> None:
    """Give an open file or folder the owner of the ``folder`` it lies in, so that what root does to the vault of a
    service's user stays usable for that service. Does nothing for anybody but root.
    """
    if os.geteuid() == 0:
        wanted, status = folder.stat(), os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (wanted.st_uid, wanted.st_gid):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)


def _refuse_planted_link(folder: Path) -> None:
    """Root works on the vaults of other users, who must not lead it elsewhere."""
    with contextlib.suppress(FileNotFoundError):
        status = folder.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            raise VaultError(
                f"{folder}: a symbolic link of uid {status.st_uid}, which is not followed; put the folder itself here"
            )


def check_vacant(folder: Path, allowed: frozenset[str]) -> None:
    """Refuse to start a vault in a ``folder`` that holds more than ``allowed`` files and empty folders.

    Raises:
        VaultError: it holds other things, or the records of a vault whose format file is gone.
    """
    with explain(folder):
        entries = sorted(folder.iterdir()) if folder.exists() else []
        others = [e for e in entries if e.name not in allowed or (e.is_dir() and any(e.iterdir()))]
    if found := [entry.name for entry in others if not entry.name.startswith(".")]:
        raise VaultError(
            f"{folder}: no vault (there is no file 'format'), and not empty ({found[0]} ...); "
            "restore that file if this was one, else choose another folder"
        )


def write_atomic(path: Path, data: bytes, *, shred_old: bool = False) -> None:
    """Write ``data`` to ``path`` (0600) so that a crash leaves either the old content or the new, on disk on return.

    With ``shred_old`` the bytes of the replaced file are overwritten.

    Raises:
        VaultError: disk full or read-only; the old content is intact.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(8)}")
    remains = temporary.with_name(f"{temporary.name}-old") if shred_old and path.exists() else None
    try:
        with explain(path):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, 0o600)
                inherit_owner(descriptor, path.parent)
                stream.write(data)
                stream.flush()
                os.fsync(descriptor)
            if remains is not None:
                with contextlib.suppress(OSError):
                    remains.hardlink_to(path)
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if remains is not None and remains.exists():
            shred(remains)


def check_writable(*folders: Path) -> None:
    """Fail where nothing can be stored in one of ``folders``.

    Raises:
        VaultError: it is read-only, belongs to another user, or its disk is full.
    """
    for folder in folders:
        with explain(folder):
            check_folder(folder)
            disk = os.statvfs(folder)
            if disk.f_blocks and not (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def exists(path: Path) -> bool:
    """Whether there is something at ``path``.

    Raises:
        VaultError: this user may not know.
    """
    with explain(path):
        return path.exists()


def read_file(path: Path, limit: int) -> bytes | None:
    """The content of ``path``, None if there is no such file.

    Raises:
        VaultError: it cannot be read, is no regular file, or holds more than ``limit`` bytes.
    """
    with explain(path):
        try:
            return read_regular(path, limit)
        except FileNotFoundError:
            return None


def shred(path: Path) -> int:
    """Overwrite (best effort: flash and journals keep copies) and unlink ``path``; returns the bytes overwritten.

    A file that has another name too, as a live record has when a crash interrupts its replacement, is only unlinked,
    and so is whatever is no regular file: a link is never followed.

    Raises:
        VaultError: it cannot be unlinked.
    """
    size = 0
    with contextlib.suppress(OSError), _opened_unfollowed(path) as stream:
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            stream.write(secrets.token_bytes(status.st_size))
            stream.flush()
            os.fsync(stream.fileno())
            size = status.st_size
    with explain(path):
        path.unlink(missing_ok=True)
    return size


def _opened_unfollowed(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "wb")


def remove_leftovers(folder: Path) -> int:
    """Shred what a crash left under ``folder``; returns the number of files. The caller holds the exclusive lock."""
    count = 0
    with explain(folder):
        leftovers = sorted(folder.rglob(f"{TEMPORARY_PREFIX}*"), reverse=True)
    for path in leftovers:
        if path.is_dir():
            count += len(shred_folder(path))
        elif path.exists() or path.is_symlink():
            shred(path)
            count += 1
    return count


def leftovers_of(path: Path) -> list[Path]:
    """What a crash left beside ``path`` while it was replaced, whatever else its folder holds."""
    return sorted(path.parent.glob(f"{TEMPORARY_PREFIX}{glob.escape(path.name)}-*"))


def shred_folder(folder: Path) -> tuple[int, ...]:
    """Shred the files in and below ``folder`` and remove it; returns the bytes overwritten in each.

    Of a link to a folder, only the link goes.
    """
    sizes: list[int] = []
    with explain(folder):
        if folder.is_symlink():
            folder.unlink()
            return ()
        for path in sorted(folder.iterdir()):
            sizes += shred_folder(path) if path.is_dir() else (shred(path),)
        folder.rmdir()
        sync_folder(folder.parent)
    return tuple(sizes)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, exclusive: bool, timeout: float = 10.0, busy: str | None = None) -> Iterator[None]:
    """Hold the lock file ``path`` against other processes and threads; readers share it.

    On a read-only file system readers go without a lock if the lock file is not there.

    Raises:
        VaultError: not obtained within ``timeout`` seconds (``busy``, if given, is the message then), or the vault is
            read-only for a writer.
    """
    descriptor = _open_lock(path, exclusive=exclusive)
    if descriptor is None:
        yield
        return
    try:
        _acquire(descriptor, path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, timeout, busy)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path, *, exclusive: bool) -> int | None:
    with explain(path):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with contextlib.suppress(OSError):
                inherit_owner(descriptor, path.parent)
            return descriptor
        except OSError as error:
            if exclusive or error.errno not in _READ_ONLY:
                raise
            return os.open(path, os.O_RDONLY) if path.exists() else None


def _acquire(descriptor: int, path: Path, kind: int, timeout: float, busy: str | None) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                default = f"{path.parent}: in use by another process for over {timeout:g} s; stop it or try again"
                raise VaultError(busy or default) from None
            time.sleep(0.01)


@contextlib.contextmanager
def explain(path: Path) -> Iterator[None]:
    """Turn an OSError about ``path`` into a VaultError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise VaultError(
                f"{path}: disk full ({error.strerror}); nothing was lost, free some space and try again"
            ) from error
        if error.errno in _READ_ONLY:
            raise VaultError(
                f"{path}: not permitted ({error.strerror}); the vault is read-only or belongs to another user"
            ) from error
        raise VaultError(f"{path}: {error.strerror or error}") from error
