"""Questions on the terminal; their answers may come through a pipe, and what follows stands on a line of its own."""

from __future__ import annotations

import sys

import typer

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}
_MAX_LINE = 4096
"""Characters."""


def confirmed(question: str) -> bool:
    """Whether ``question`` is answered with yes; nothing but the answer is taken from standard input.

    Raises:
        Abort: there was no answer.
    """
    while True:
        typer.echo(f"{question} [y/N]: ", nl=False, err=True)
        try:
            line = _line(question)
        except KeyboardInterrupt:
            line = ""
        if not line or not sys.stdin.isatty():  # no terminal has echoed the end of a line
            typer.echo(err=True)
        if not line:
            raise typer.Abort
        if (answer := _ANSWERS.get(line.strip().lower())) is not None:
            return answer


def secret(what: str, *, confirm: bool = False) -> str:
    """A PIN or the like: asked for unseen, with ``confirm`` twice; where no terminal is there to ask, one line of
    standard input, which is its own confirmation.

    Raises:
        Abort: there was no answer.
        BadParameter: standard input is at its end, or its line is empty, too long or not UTF-8.
    """
    if sys.stdin.isatty():  # Typer ends the line itself
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    line = _line(what).rstrip("\r\n")
    if not line:
        raise typer.BadParameter(f"{what}: standard input has no line for it; write it there, or use a terminal")
    return line


def _line(what: str) -> str:
    """One line of standard input, with its end.

    Raises:
        BadParameter: it is too long, or not UTF-8.
    """
    try:
        line = sys.stdin.readline(_MAX_LINE)
        line.encode()
    except UnicodeError:
        raise typer.BadParameter(f"{what}: standard input is not UTF-8") from None
    if len(line) == _MAX_LINE:
        raise typer.BadParameter(f"{what}: the line on standard input has {_MAX_LINE} characters or more")
    return line
