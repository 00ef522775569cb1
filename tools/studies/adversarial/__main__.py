"""``python -m tools.studies.adversarial COMMAND``: one command a step, ``run`` for all of them."""

from __future__ import annotations

import argparse
import sys

from tools.studies.adversarial import attack, detect, listing, report, run, vocode
from voiceid.errors import VoiceIdError

COMMANDS = {"trials": listing, "attack": attack, "vocode": vocode, "detect": detect, "report": report, "run": run}


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done; 1: not all recordings could be used; 2: cannot be done, for the reason printed."""
    parser = argparse.ArgumentParser(prog="adversarial", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.splitlines()[0], description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except VoiceIdError as error:
        print(f"adversarial {parsed.command}: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    raise SystemExit(main())
