"""Questions on a terminal and through a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from voiceid.cli.exit_codes import ExitCode

ASK = """
import typer
from voiceid.cli import arguments, asking, main

def ask(*_):
    arguments.confirm("Really?", False)
    typer.echo(asking.secret("New PIN", confirm=True) + " " + asking.secret("Present PIN"))

main.Context.settings = ask
main.app(["config", "show"])
"""


def run(answers: str | None) -> subprocess.CompletedProcess[str]:
    """Answer through a pipe; None: at once at a terminal with the end of input."""
    if answers is not None:
        return subprocess.run([sys.executable, "-c", ASK], input=answers, capture_output=True, text=True)
    terminal, ours = pty.openpty()
    os.write(terminal, b"\x04")
    ran = subprocess.run([sys.executable, "-c", ASK], stdin=ours, capture_output=True, text=True)
    os.close(terminal)
    os.close(ours)
    return ran


@pytest.mark.parametrize("answers", ["n\n", "", None])
def test_an_error_after_a_question_has_a_line_of_its_own(answers: str | None) -> None:
    ran = run(answers)
    assert ran.returncode == ExitCode.DECLINED and ran.stdout == ""
    assert [line.strip() for line in ran.stderr.splitlines()] == ["Really? [y/N]:", "error: not confirmed"]


def test_through_a_pipe_each_secret_is_one_line_and_nothing_is_warned_of() -> None:
    ran = run("y\n2580 \r\n0852")
    assert ran.stdout == "2580  0852\n" and "Warning" not in ran.stderr and "PIN" not in ran.stderr


@pytest.mark.parametrize("answers", ["y\n", "y\n\n", "y\n2580\n"])
def test_a_secret_that_is_not_there_is_an_error(answers: str) -> None:
    ran = run(answers)
    assert ran.returncode == ExitCode.USAGE and "standard input has no line for it" in ran.stderr


@pytest.mark.parametrize(("answer", "message"), [(b"y\n25\xff80\n", "not UTF-8"), (b"y\n" + b"1" * 5000, "4096")])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_secret_that_is_no_text_or_without_an_end_is_an_error(answer: bytes, message: str, errors: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": f"utf-8:{errors}"}
    ran = subprocess.run([sys.executable, "-c", ASK], input=answer, capture_output=True, env=environment)
    assert ran.returncode == ExitCode.USAGE
    assert message in ran.stderr.decode()
