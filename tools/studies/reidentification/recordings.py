"""The recordings of a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tools.studies.errors import StudyError

AUDIO = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a")
LONGEST = 3600.0
"""Seconds of a recording."""


def find_audio(folder: Path, listing: Path | None) -> list[Path]:
    """Names of recordings relative to ``folder``: all, or those on the lines of ``listing``.

    Raises:
        StudyError: no such folder, nothing there, or a listed file that is missing or listed twice.
    """
    if not folder.is_dir():
        raise StudyError(f"{folder}: no such folder")
    if listing is None:
        names = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.suffix.lower() in AUDIO)
    else:
        lines = [line.strip() for line in _lines(listing) if line.strip()]
        names = [Path(line).relative_to(folder) if Path(line).is_relative_to(folder) else Path(line) for line in lines]
        for name in names:
            if not (folder / name).is_file():
                raise StudyError(f"{listing}: {folder / name} is no file")
    if not names:
        raise StudyError(f"{folder}: no recordings ({', '.join(AUDIO)})")
    stems = Counter(name.with_suffix("") for name in names)
    if twice := [name for name in names if stems[name.with_suffix("")] > 1]:
        raise StudyError(f"{twice[0]}: two recordings have the name {twice[0].with_suffix('')}; list or keep one")
    return names


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read ({error})") from error
