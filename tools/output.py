"""Where a tool may write its result, by the rule of ``voiceid`` itself and looked at before the work is done."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from voiceid.cli.output_path import refusal, wrong_suffix
from voiceid.errors import SettingsError
from voiceid.output_file import check_file, check_folder
from voiceid.settings import default_config_path, load_settings


def output(text: str, suffixes: Sequence[str] | None = None) -> Path:
    """An argument that names a file to write; folders that are missing are made when it is written.

    Raises:
        ArgumentTypeError: it cannot be written, would take the place of what ``voiceid`` needs, or has another suffix
            than ``suffixes``; None stands for all but those of sound and pictures.
    """
    path = Path(text)
    try:
        if reason := refusal(path, load_settings(), default_config_path()) or wrong_suffix(path, suffixes):
            raise argparse.ArgumentTypeError(reason)
        if path.parent.exists():
            check_file(path)
        else:
            check_folder(next(folder for folder in path.absolute().parents if folder.exists()))
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {error.strerror}") from None
    return path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whose folder is made if it is missing.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
