"""Workers of an evaluation do not outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.wait_helpers import until

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = """
import os, sys, time
from dataclasses import dataclass
from pathlib import Path

from tools.evaluation.parallel import Account, each


@dataclass(frozen=True)
class Slow:
    path: Path


def make_work():
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    return lambda item: time.sleep(60)


if __name__ == "__main__":
    each(make_work, [Slow(Path(str(n))) for n in range(40)], jobs=2, account=Account(), label="slow")
"""


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script, workers = tmp_path / "slow.py", tmp_path / "workers"
    script.write_text(SCRIPT, "utf-8")
    workers.mkdir()
    paths = os.pathsep.join((str(REPOSITORY), os.environ.get("PYTHONPATH", "")))
    parent = subprocess.Popen([sys.executable, str(script), str(workers)], env=os.environ | {"PYTHONPATH": paths})
    try:
        until(lambda: len(list(workers.iterdir())) == 2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not any(alive(int(file.name)) for file in workers.iterdir()))


def alive(pid: int) -> bool:
    """Whether the process runs; a dead one that nobody has waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
