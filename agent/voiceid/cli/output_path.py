"""Where a command may write its result: not over what would be lost by it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from voiceid.cli.context import Context
from voiceid.cli.device import key_path
from voiceid.output_file import check_file
from voiceid.settings import Settings, default_config_path

MEDIA = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".png", ".svg", ".pdf", ".jpg", ".jpeg")
"""Suffixes that promise sound or a picture."""


def check_output(
    path: Path, context: Context, *, recording: Path | None = None, suffixes: Sequence[str] | None = None
) -> None:
    """Fail, before any work is done, where a result cannot or must not be written to ``path``.

    Raises:
        typer.BadParameter: it lies in the vault, or is the device key, the configuration, or the ``recording``; or its
            suffix promises another kind of file, see :func:`wrong_suffix`.
        OSError: nothing can be written there.
    """
    config = context.config or default_config_path()
    reason = refusal(path, context.settings(), config, recording=recording) or wrong_suffix(path, suffixes)
    if reason:
        raise typer.BadParameter(reason)
    check_file(path)


def wrong_suffix(path: Path, suffixes: Sequence[str] | None = None) -> str | None:
    """Why a file named ``path`` would not hold what its suffix promises, None where it may.

    ``suffixes`` are those that can be written; None is for data of no common kind: all but sound and pictures.
    """
    suffix = path.suffix.lower()
    if suffixes is None:
        return f"{path} would hold neither sound nor a picture; choose another suffix" if suffix in MEDIA else None
    kind = f"as {suffix}" if suffix else "without a suffix"
    return None if suffix in suffixes else f"{path} cannot be written {kind}; use {' or '.join(suffixes)}"


def refusal(path: Path, settings: Settings, config: Path, *, recording: Path | None = None) -> str | None:
    """Why nothing must be written to ``path``, None where it may: see :func:`check_output`."""
    target = _real(path)
    taken = {_real(key_path(settings)): "is the device key", _real(config): "is the configuration"}
    if recording is not None:
        taken[_real(recording)] = "is the recording"
    reason = taken.get(target) or ("lies in the vault" if target.is_relative_to(_real(settings.paths.vault)) else None)
    return None if reason is None else f"{path} {reason}; write to another file"


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
