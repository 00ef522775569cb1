"""Whether what lies at the paths that the settings name is of the kind that belongs there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from voiceid.settings import Settings

FOLDER, FILE, SOCKET = "folder", "file", "socket"

_IS = {FOLDER: stat.S_ISDIR, FILE: stat.S_ISREG, SOCKET: stat.S_ISSOCK}


def misplaced(settings: Settings) -> Iterator[str]:
    """Each path of the daemon's own that cannot be what the settings make of it, and why."""
    paths, service = settings.paths, settings.service
    named: list[tuple[str, Path | None, str]] = [
        ("[paths] vault", paths.vault, FOLDER),
        ("[paths] device_key", paths.device_key, FILE),
        ("[service] socket", service.socket, SOCKET),
        ("[service] metrics_file", service.metrics_file, FILE),
    ]
    for key, path, kind in named:
        if path is None:
            continue
        if not path.is_absolute():
            yield f"{key}: {path}: would lie wherever voiceid is started; begin it with / or ~/"
        elif problem := problem_of(path, kind):
            yield f"{key}: {problem}"


def problem_of(path: Path, kind: str) -> str | None:
    """Why ``path`` is no ``kind`` and cannot become one; None also where this user may not look."""
    mode = _mode(path)
    if mode is not None:
        return None if _IS[kind](mode) else f"{path}: is no {kind}; name another place, or take away what lies there"
    above = next((folder for folder in path.parents if os.path.lexists(folder)), None)
    mode = _mode(above) if above is not None else None
    if mode is not None and not stat.S_ISDIR(mode):
        return f"{path}: cannot be made, since {above} is no folder; name another place"
    return None


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None
