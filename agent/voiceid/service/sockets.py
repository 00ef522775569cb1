"""The listening socket: systemd's, or one of our own that no second daemon can take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path

from voiceid.errors import ServiceError
from voiceid.settings import ServiceSettings

SOCKET_NAME = "voiceid.sock"
SYSTEM_SOCKET = Path("/run/voiceid") / SOCKET_NAME
BACKLOG = 128
_FIRST_FD = 3
_MAX_PATH = 100
"""Bytes; ``sun_path`` takes 104 on macOS, 108 on Linux."""


def runtime_folder() -> Path:
    """Where a daemon keeps its socket and metrics: systemd's ``RuntimeDirectory``, else that of the user's session.

    Raises:
        ServiceError: there is neither.
    """
    if systemd := os.environ.get("RUNTIME_DIRECTORY"):
        return Path(systemd.split(":")[0])
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(session) / "voiceid"
    raise ServiceError("no folder for the socket: set [service] socket, or run under systemd or in a session")


def daemon_socket(settings: ServiceSettings) -> Path:
    """Where the daemon listens when systemd passes no socket.

    Raises:
        ServiceError: nothing says where.
    """
    return settings.socket or runtime_folder() / SOCKET_NAME


def client_socket(settings: ServiceSettings) -> Path | None:
    """The socket of a daemon for clients: the configured one, the system's, or that of this session; None without."""
    if settings.socket is not None:
        return settings.socket if _is_socket(settings.socket) else None
    candidates = [SYSTEM_SOCKET]
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.append(Path(session) / "voiceid" / SOCKET_NAME)
    return next((path for path in candidates if _is_socket(path)), None)


def is_served(path: Path) -> bool:
    """Whether somebody listens at ``path``.

    Raises:
        ServiceError: this user may not know.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(os.fspath(path))
        except PermissionError as error:
            raise ServiceError(
                f"{path}: not permitted to talk to the voiceid daemon; join the group of the socket, or name a --vault"
            ) from error
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # it listens, but is busy
        return True


def activated_socket() -> socket.socket | None:
    """The socket that systemd passed to this process (``LISTEN_FDS``), or None; the variables are taken away.

    Raises:
        ServiceError: it passed something else than one listening Unix stream socket.
    """
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit() or int(count) == 0:
        return None
    if int(count) != 1:
        raise ServiceError(f"systemd passed {count} sockets; voiceid.socket must have one ListenStream=")
    os.set_inheritable(_FIRST_FD, False)
    try:
        listener = socket.socket(fileno=_FIRST_FD)
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ServiceError(f"systemd passed no usable socket ({error.strerror})") from error
    if listener.family is not socket.AF_UNIX or listener.type is not socket.SOCK_STREAM or not listening:
        raise ServiceError(
            "systemd passed something else than a listening Unix stream socket; use ListenStream=/run/..."
        )
    return listener


class OwnSocket:
    """A socket that this process binds at ``path`` (0660); a stale one is taken over, a live one refused."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ServiceError: another daemon listens there, or the folder cannot be used.
        """
        self.path = path
        if len(os.fsencode(path)) > _MAX_PATH:
            raise ServiceError(f"{path}: too long for a socket's path; set a shorter [service] socket")
        try:
            self._prepare_folder()
            self._guard = hold(path.with_name(f".{path.name}.lock"), f"{path}: another voiceid daemon listens here")
            self._remove_stale()
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            umask = os.umask(0o177)
            try:
                self.listener.bind(os.fspath(path))
            finally:
                os.umask(umask)
            path.chmod(0o660)
            self.listener.listen(BACKLOG)
        except OSError as error:
            raise ServiceError(f"{path}: cannot listen here ({error.strerror}); see [service] socket") from error

    def close(self) -> None:
        """Remove the socket."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.listener.close()
        os.close(self._guard)

    def _prepare_folder(self) -> None:
        folder = self.path.parent
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o755, exist_ok=True)  # its option parents would leave the mode to the umask
        mode = folder.stat().st_mode
        if mode & 0o002 and not mode & stat.S_ISVTX:
            raise ServiceError(
                f"{folder}: everybody may replace files here (mode {mode & 0o777:04o}); choose another folder"
            )

    def _remove_stale(self) -> None:
        if not self.path.exists() and not self.path.is_symlink():
            return
        if not _is_socket(self.path):
            raise ServiceError(f"{self.path}: exists and is no socket; remove it or set another [service] socket")
        if is_served(self.path):
            raise ServiceError(f"{self.path}: another process listens here already; stop it first")
        self.path.unlink(missing_ok=True)


def hold(path: Path, refusal: str) -> int:
    """Hold the lock file ``path`` until the descriptor is closed, or the process is gone.

    Raises:
        ServiceError: another process holds it: ``refusal``.
        OSError: it cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ServiceError(f"{refusal}; stop it first") from None
    return descriptor


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
