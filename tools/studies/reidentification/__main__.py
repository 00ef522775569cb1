"""``python -m tools.studies.reidentification COMMAND``: one command a step, ``run`` for all of them."""

from __future__ import annotations

import importlib

from tools.studies.commands import run_command

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
    modules = {name: importlib.import_module(f"{__package__}.{module}") for name, module in COMMANDS.items()}
    return run_command("reidentification", __doc__, modules, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
