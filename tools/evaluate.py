"""Measure shipped (or other) models on any index in the corpus format: ``python tools/evaluate.py --help``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from types import ModuleType

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.evaluation import decision, fusion, liveness, spoofing, teachers, units, verification, wakeword, words
from tools.evaluation.det import draw_result
from tools.evaluation.options import EvaluationError, add_options, options_from
from tools.evaluation.parallel import Account
from tools.evaluation.report import write_json
from voiceid.errors import VoiceIdError
from voiceid.plotting import check_matplotlib

COMMANDS: dict[str, ModuleType] = {
    "verification": verification,
    "spoofing": spoofing,
    "liveness": liveness,
    "units": units,
    "decision": decision,
    "fusion": fusion,
    "wakeword": wakeword,
    "words": words,
    "teachers": teachers,
}


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: measured; 1: too many unreadable files, but all is written; 2: cannot be measured or drawn."""
    parsed = _parser().parse_args(arguments)
    options = options_from(parsed)
    picture: Path | None = getattr(parsed, "det", None)
    start = time.monotonic()
    written = (options.json, picture, getattr(parsed, "page", None))
    try:
        if options.index.resolve() in [path.resolve() for path in written if path is not None]:
            raise EvaluationError(f"{options.index} is the index; write to another file")
        if picture is not None:
            check_matplotlib()
        result, text, account = COMMANDS[parsed.command].measure(options, parsed)
    except (EvaluationError, VoiceIdError) as error:
        print(f"evaluate {parsed.command}: {error}", file=sys.stderr)
        return 2
    result = {
        **result,
        "index": str(options.index),
        "rows": {"sets": options.sets, "kinds": options.kinds, "split": options.split, "limit": options.limit},
        "seed": options.seed,
        "files": account.as_json(),
        "wall_seconds": round(time.monotonic() - start, 1),
        "arguments": arguments if arguments is not None else sys.argv[1:],
    }
    print(text)
    write_json(options.json, result)
    if picture is not None:
        try:
            draw_result(picture, result)
        except (EvaluationError, OSError) as error:
            print(f"evaluate {parsed.command}: {error}", file=sys.stderr)
            return 2
    return _report_files(account, options.max_failures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evaluate.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.splitlines()[0], description=summary)
        add_options(command)
        module.add_arguments(command)
    return parser


def _report_files(account: Account, max_failures: float) -> int:
    for reason, count in account.dropped.most_common():
        print(f"left out: {count} ({reason})", file=sys.stderr)
    for message in list(account.failed.values())[:10]:
        print(f"failed: {message}", file=sys.stderr)
    if account.failed:
        print(f"{len(account.failed)} of {account.chosen} files failed", file=sys.stderr)
    if account.failure_share() > max_failures:
        print(f"more than {max_failures:.0%} of the files failed: do not trust the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
