"""One clear line (or one JSON object) on standard error for every error."""

from __future__ import annotations

import contextlib
import errno
import json
import sys

import typer

from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.output import stderr
from voiceid.cli.usage import usage_message
from voiceid.errors import VoiceIdError

_ADVICE = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EDQUOT: "free some of your disk quota and try again",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EACCES: "check the owner and mode of the file and its folder",
    errno.EPERM: "check the owner and mode of the file and its folder",
}


def report(error: BaseException, code: ExitCode, *, as_json: bool) -> ExitCode:
    """Write ``error`` to standard error and return ``code``."""
    message = describe(error, code)
    with contextlib.suppress(BrokenPipeError, SystemExit):  # nobody reads it: Rich ends the process then
        _write(error, code, message, as_json=as_json)
    return code


def _write(error: BaseException, code: ExitCode, message: str, *, as_json: bool) -> None:
    if as_json:
        detail = {
            "type": type(error).__name__,
            "message": message,
            "exit_code": int(code),
            "exit_name": code.name.lower(),
        }
        sys.stderr.write(json.dumps({"error": detail}, ensure_ascii=False) + "\n")
    elif message:
        console = stderr()
        console.print("error:", style="bold red", end=" ")
        console.print(message, markup=False, soft_wrap=True)


def describe(error: BaseException, code: ExitCode) -> str:
    """``error`` in one line, with what to do about it."""
    if isinstance(error, VoiceIdError):
        text = str(error)
    elif isinstance(error, OSError):
        parts = [str(error.filename or ""), error.strerror or str(error), _ADVICE.get(error.errno or 0, "")]
        text = f"{': '.join(part for part in parts[:2] if part)}{f'; {parts[2]}' if parts[2] else ''}"
    elif code is ExitCode.INTERNAL:
        text = f"internal error: {type(error).__name__}: {error}; set VOICEID_DEBUG=1 to see where, and report it"
    elif isinstance(error, MemoryError):
        text = "out of memory; close other programs or use shorter audio"
    elif type(error) is typer.BadParameter:
        text = usage_message(error)
    else:
        format_message = getattr(error, "format_message", None)
        text = str(format_message() if format_message else error)
    return " ".join(text.split())
