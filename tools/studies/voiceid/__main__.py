"""``python -m tools.studies.voiceid STEP STUDY.toml``: one step, or ``run`` for all and the report.

A step that was done with the same inputs, options and models is not done again, so that an interrupted study goes on
where it was.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tools.evaluation.options import EvaluationError
from tools.studies.voiceid import config, report
from voiceid.errors import VoiceIdError

RUN = "run"


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done; 2: cannot be done, for the reason printed."""
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
    try:
        study = config.read_study(parsed.study)
        results = {name: _show(name, study) for name in _steps(parsed.step, study)}
        if parsed.step == RUN:
            print(f"{report.write(study, results)} written")
    except (VoiceIdError, EvaluationError) as error:
        print(f"voiceid-study {parsed.step}: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"voiceid-study {parsed.step}: {error}; install it with: pip install 'voiceid[train]'", file=sys.stderr)
        return 2
    except BrokenProcessPool:
        print(
            f"voiceid-study {parsed.step}: a worker was killed, perhaps for want of memory; run the same command "
            "again: what is done is kept (fewer jobs need less memory)",
            file=sys.stderr,
        )
        return 2
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
