"""``python -m tools.studies.reidentification COMMAND``: one command a step, ``run`` for all of them."""

from __future__ import annotations

import argparse
import importlib
import sys

from voiceid.errors import VoiceIdError

COMMANDS = {
    "check": "check",
    "corpus": "corpus",
    "preprocess": "preprocess",
    "silence": "silence",
    "embed": "embed",
    "split": "split",
    "plda": "reidentify",
    "metrics": "metrics",
    "sweep": "sweep",
    "plot": "plot",
    "risk": "risk",
    "scale": "scale",
    "run": "run",
}
"""Commands and their modules."""


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done; 2: cannot be done, for the reason printed."""
    parser = argparse.ArgumentParser(prog="reidentification", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module_name in COMMANDS.items():
        module = importlib.import_module(f"tools.studies.reidentification.{module_name}")
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.splitlines()[0], description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except VoiceIdError as error:
        print(f"reidentification {parsed.command}: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    raise SystemExit(main())
