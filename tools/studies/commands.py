"""The command line of a study: one sub-command a module."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from tools.evaluation.options import EvaluationError
from voiceid.errors import VoiceIdError

IMPOSSIBLE, INTERRUPTED = 2, 130
WHAT_TO_DO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "; make room, or name another output"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "; name another folder, or change who may write there"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR, errno.EISDIR), "; name another file or folder"),
}
"""By number of a system's error."""


def run_command(
    prog: str, description: str | None, modules: Mapping[str, ModuleType], arguments: Sequence[str] | None
) -> int:
    """Run the command that ``arguments`` (default: the process's) name, by ``add_arguments`` and ``run`` of its module.

    Returns the status that ``run`` gives, or that of :func:`status_of`.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in modules.items():
        summary = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=summary.splitlines()[0], description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    return status_of(f"{prog} {parsed.command}", lambda: parsed.run(parsed))


def status_of(name: str, work: Callable[[], int]) -> int:
    """The exit status of ``work``; 2 where it cannot be done and 130 where it was interrupted, the reason printed."""
    try:
        return work()
    except (VoiceIdError, EvaluationError) as error:
        reason, status = str(error), IMPOSSIBLE
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        reason, status = f"{where}{error.strerror or error}{WHAT_TO_DO.get(error.errno or 0, '')}", IMPOSSIBLE
    except MemoryError as error:
        reason, status = f"not enough memory ({error}); choose smaller numbers, or fewer workers", IMPOSSIBLE
    except ImportError as error:
        reason, status = f"{error}; install it with: pip install 'voiceid[train]'", IMPOSSIBLE
    except KeyboardInterrupt:
        reason, status = "interrupted; the same command goes on where it was", INTERRUPTED
    print(f"{name}: {reason}", file=sys.stderr)
    return status
