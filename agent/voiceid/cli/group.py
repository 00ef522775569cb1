"""The root command: loads each command's module on demand and turns every error into one line and an exit code."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from voiceid.cli.errors import report
from voiceid.cli.exit_codes import ExitCode, code_of_error
from voiceid.cli.output import drop_unwritten, settle_streams, stdout

COMMANDS = {
    "enroll": "Enrol a voice from recordings or the microphone.",
    "verify": "Check whether an utterance is a given user speaking live.",
    "identify": "Find out which enrolled user is speaking, or that none of them is.",
    "authenticate": "Verify a user and, when accepted, write a signed envelope for a relying party.",
    "units": "Turn speech into discrete units, the only part of it that is ever shared.",
    "understand": "Turn units into words: a command of a grammar with its slots, or free text.",
    "explain": "Show how a decision came about, as a table and as a picture.",
    "users": "List, show, delete, renew and re-enrol users.",
    "credentials": "List, register and revoke a user's credentials.",
    "privacy": "Show and choose what each relying party gets to see.",
    "backup": "Make and restore an encrypted backup of enrolments.",
    "device": "Show and rotate the device key.",
    "models": "List, verify and choose models, and go back to the default ones.",
    "benchmark": "Measure time, memory and size of every stage on this machine.",
    "devices": "List microphones, and try one with a level meter.",
    "daemon": "Run the resident daemon: microphone, models and vault behind a socket.",
    "status": "Show how the daemon is.",
    "lockout": "Show and reset the lock-out after repeated failures.",
    "pin": "Set, clear and enter the PIN that ends a delay of the lock-out; needs a daemon.",
    "doctor": "Check that this machine is ready, and say what to do where it is not.",
    "config": "Show and check the configuration.",
}
"""Every command with its one-line summary; ``voiceid.cli.<name>`` holds it as ``app``."""

FLAGS = ("--json",)
VALUED = ("--vault", "--config")
NOTE = "The global options [bold]--vault DIR[/], [bold]--config FILE[/] and [bold]--json[/] may follow the command too."


def flowing(text: str) -> str:
    """``text`` with its paragraphs as one line each, to be wrapped to the terminal, and its examples as one block."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    joined = "\n\n".join(paragraphs)
    return re.sub(r"\n\n(?=voiceid )", "\n", joined)


class LazyCommand(TyperCommand):
    """Stands for a command in ``--help``; imports it when it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        module = importlib.import_module(f"voiceid.cli.{self.name}")
        command = typer.main.get_command(module.app)
        command.name = self.name
        command.epilog = NOTE
        for shown in (command, *getattr(command, "commands", {}).values()):
            shown.help = flowing(shown.help or "")
        return command.make_context(info_name, args, parent=parent, **extra)


class RootGroup(TyperGroup):
    """``voiceid`` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, summary in COMMANDS.items():
            self.add_command(LazyCommand(name, help=summary), name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        codes = Table.grid("code", "meaning", padding=(0, 2))
        for code in ExitCode:
            codes.add_row(f"[bold]{code.value:>3}[/]", code.meaning)
        stdout().print(Panel.fit(codes, title="Exit codes", title_align="left", border_style="dim"))

    def main(self, args: Sequence[str] | None = None, *positional: Any, **extra: Any) -> NoReturn:
        arguments = global_options_first(list(sys.argv[1:] if args is None else args))
        as_json = "--json" in arguments
        extra["standalone_mode"] = False
        try:
            settle_streams()
            refuse_empty(arguments)
            if isinstance(sys.stdout, io.TextIOWrapper):  # file names need not be UTF-8, and JSON takes the escapes
                sys.stdout.reconfigure(errors="backslashreplace")
            result = super().main(arguments, *positional, **extra)
            sys.stdout.flush()
        except typer.BadParameter.__base__ as error:  # type: ignore[misc]  # Click's UsageError, wherever typer keeps it
            code = report(error, ExitCode.USAGE, as_json=as_json)
        except typer.Abort:
            code = report(typer.Abort("not confirmed"), ExitCode.DECLINED, as_json=as_json)
        except (SystemExit, BrokenPipeError):  # how Click and Rich end where nobody reads standard output any more
            code = ExitCode.CLOSED_PIPE
        except Exception as error:
            if os.environ.get("VOICEID_DEBUG"):
                raise
            code = report(error, code_of_error(error), as_json=as_json)
        else:
            code = ExitCode(result or 0)  # type: ignore[call-arg]  # looks one up
            if code is ExitCode.INTERRUPTED:
                report(KeyboardInterrupt("interrupted"), code, as_json=as_json)
        drop_unwritten()
        sys.exit(int(code))


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse empty arguments: from an unset variable of a script they would pass for options that were not given.

    Raises:
        BadParameter: there is one; the message says which.
    """
    for position, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if not argument:
            before = arguments[position - 1] if position else ""
            option = before if before.startswith("-") else "an argument"
        elif not (option.startswith("--") and equals and not value):
            continue
        raise typer.BadParameter(f"{option} is empty; give it a value or leave it out")


def global_options_first(arguments: list[str]) -> list[str]:
    """Move global options that follow the command before it; what comes after ``--`` stays."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    moved: list[str] = []
    kept: list[str] = []
    remaining = iter(arguments[:end])
    for argument in remaining:
        if argument in FLAGS or argument.startswith(tuple(f"{option}=" for option in VALUED)):
            moved.append(argument)
        elif argument in VALUED:
            moved += [argument, *(value for value in [next(remaining, None)] if value is not None)]
        else:
            kept.append(argument)
    return [*moved, *kept, *arguments[end:]]
