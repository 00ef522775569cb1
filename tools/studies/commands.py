"""The command line of a study: one sub-command a module."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from voiceid.errors import VoiceIdError


def run_command(
    prog: str, description: str | None, modules: Mapping[str, ModuleType], arguments: Sequence[str] | None
) -> int:
    """Run the command that ``arguments`` (default: the process's) name, by ``add_arguments`` and ``run`` of its module.

    Returns the status that ``run`` gives, or 2 where it cannot be done, for the reason printed.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in modules.items():
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.splitlines()[0], description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except VoiceIdError as error:
        print(f"{prog} {parsed.command}: {error}", file=sys.stderr)
        return 2
    return status
