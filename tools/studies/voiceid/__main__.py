"""``python -m tools.studies.voiceid STEP STUDY.toml``: one step, or ``run`` for all and the report.

A step that was done with the same inputs, options and models is not done again, so that an interrupted study goes on
where it was.
"""

from __future__ import annotations

import argparse
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tools.studies.commands import status_of
from tools.studies.errors import StudyError
from tools.studies.voiceid import config, report

RUN = "run"


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done; 2: cannot be done, for the reason printed; 130: interrupted."""
    parser = argparse.ArgumentParser(
        prog="voiceid-study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="step", required=True)
    for name, module in report.MODULES.items():
        summary = (module.__doc__ or "").strip()
        commands.add_parser(name, help=summary.splitlines()[0], description=summary)
    commands.add_parser(
        RUN, help="all steps, then the report", description="All steps in their order, then the report."
    )
    for command in commands.choices.values():
        command.add_argument("study", type=Path, help="TOML file, see docs/studies/voiceid.md")
    parsed = parser.parse_args(arguments)
    return status_of(f"voiceid-study {parsed.step}", lambda: _run(parsed.step, parsed.study))


def _run(asked: str, path: Path) -> int:
    study = config.read_study(path)
    try:
        results = {name: _show(name, study) for name in _steps(asked, study)}
        if asked == RUN:
            print(f"{report.write(study, results)} written")
    except BrokenProcessPool as error:
        raise StudyError(
            "a worker was killed, perhaps for want of memory; run the same command again: what is done is kept (fewer "
            "jobs need less memory)"
        ) from error
    return 0


def _steps(asked: str, study: config.Study) -> list[str]:
    return [name for name in config.STEPS if name in study.steps] if asked == RUN else [asked]


def _show(name: str, study: config.Study) -> dict[str, Any]:
    """Do a step and print its tables."""
    result: dict[str, Any] = report.MODULES[name].step(study)
    for table in report.MODULES[name].tables(result):
        print(f"{table.text()}\n", flush=True)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
