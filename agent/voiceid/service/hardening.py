"""What keeps keys and voices of this process out of core dumps and other processes' sight."""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys
from pathlib import Path

from voiceid.errors import ServiceError, VaultError

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """No core dumps, and (on Linux) no tracing by other processes of this user.

    Raises:
        ServiceError: the system refuses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise ServiceError(f"core dumps cannot be switched off ({os.strerror(ctypes.get_errno())})")


def check_vault_folder(folder: Path) -> None:
    """Insist that an existing vault is private and ours.

    Raises:
        VaultError: others have access, it belongs to another user, or is no folder.
    """
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise VaultError(f"{folder}: the vault cannot be reached ({error.strerror})") from error
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        raise VaultError(f"{folder}: the vault is no folder; a symbolic link is not followed, name its target")
    if status.st_uid != os.geteuid():
        raise VaultError(
            f"{folder}: the vault belongs to uid {status.st_uid}, the daemon runs as {os.geteuid()}; "
            f"run the daemon as that user, or: chown -R {os.geteuid()} {folder}"
        )
    if mode & 0o077:
        raise VaultError(
            f"{folder}: others have access to the vault (mode {mode:04o}) and may have copied it; "
            f"run: chmod 700 {folder}"
        )
