"""``python -m tools.studies.adversarial COMMAND``: one command a step, ``run`` for all of them."""

from __future__ import annotations

from tools.studies.adversarial import attack, detect, guard, listing, report, run, vocode
from tools.studies.commands import run_command

COMMANDS = {
    "trials": listing,
    "attack": attack,
    "vocode": vocode,
    "detect": detect,
    "report": report,
    "run": run,
    "guard": guard,
}


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done; 1: not all recordings could be used; 2: cannot be done, for the reason printed."""
    return run_command("adversarial", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
