"""Questions on the terminal; their answers may come through a pipe, and what follows stands on a line of its own."""

from __future__ import annotations

import sys

import typer

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


def confirmed(question: str) -> bool:
    """Whether ``question`` is answered with yes; nothing but the answer is taken from standard input.

    Raises:
        Abort: there was no answer.
    """
    while True:
        typer.echo(f"{question} [y/N]: ", nl=False, err=True)
        try:
            line = sys.stdin.readline()
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
        BadParameter: standard input is at its end, or its line is empty.
    """
    if sys.stdin.isatty():  # Typer ends the line itself
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise typer.BadParameter(f"{what}: standard input has no line for it; write it there, or use a terminal")
    return line
