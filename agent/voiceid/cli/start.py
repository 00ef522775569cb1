"""The entry point of the ``voiceid`` script: imports so little that hardly an interrupt comes before it."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run ``voiceid``; an interrupt ends it with its exit code and one line even while its modules are loading."""
    try:
        from voiceid.cli.main import app

        app()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from voiceid.cli.errors import report
        from voiceid.cli.exit_codes import ExitCode

        interrupt = KeyboardInterrupt("interrupted")
        sys.exit(int(report(interrupt, ExitCode.INTERRUPTED, as_json="--json" in sys.argv)))
