"""Programs and voices of Debian packages, unpacked into the cache: nothing is installed and no root is needed.

The packages come from the mirrors that ``apt`` is set up with, of the sections contrib and non-free too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tools.train.data.attacks.cache import attack_folder

SECTIONS = "main contrib non-free"
HARD_CODED = b"/usr/share/festival"
"""A path that voices name in their scripts, rewritten to where they are unpacked."""


def root() -> Path:
    """Where packages are unpacked."""
    return attack_folder("debian") / "root"


def unpack(packages: tuple[str, ...]) -> Path:
    """Fetch and unpack ``packages``, unless that was done before; returns the folder that stands for ``/``.

    Raises:
        SystemExit: this is no Debian system, or its mirrors lack a package.
    """
    folder = attack_folder("debian")
    done = folder / "done"
    done.mkdir(exist_ok=True)
    missing = [name for name in packages if not (done / name).exists()]
    if missing and (shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None):
        raise SystemExit(f"cannot fetch {', '.join(missing)}: needs apt-get and dpkg-deb of Debian or Ubuntu")
    for name in missing:
        _fetch(name, folder)
        (done / name).touch()
    return root()


def environment() -> dict[str, str]:
    """Environment variables with which unpacked programs find their libraries and data."""
    libraries = sorted({path.parent for path in root().glob("usr/lib/**/*.so.*")})
    return os.environ | {
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "RHVOICE_DATA_PATH": str(root() / "usr" / "share" / "RHVoice"),
    }


def _fetch(name: str, folder: Path) -> None:
    packed = folder / "packed" / name
    shutil.rmtree(packed, ignore_errors=True)
    packed.mkdir(parents=True)
    fetched = subprocess.run(
        ["apt-get", *_options(folder), "download", "-q", name], cwd=packed, capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        raise SystemExit(f"the Debian package {name} cannot be fetched: {fetched.stderr.strip()}")
    unpacked = packed / "root"
    subprocess.run(["dpkg-deb", "-x", next(packed.glob("*.deb")), unpacked], check=True)
    home = bytes(root() / HARD_CODED.decode().lstrip("/"))
    for script in unpacked.rglob("*.scm"):
        if script.is_file() and HARD_CODED in (text := script.read_bytes()):
            script.write_bytes(text.replace(HARD_CODED, home))
    shutil.copytree(unpacked, root(), symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(packed)


@cache
def _options(folder: Path) -> tuple[str, ...]:
    """Options that give ``apt-get`` package lists of its own, with all sections of the mirrors it knows."""
    lists, packages, sources = (folder / "apt" / name for name in ("lists", "cache", "sources.list"))
    for path in (lists / "partial", packages / "archives" / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    query = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Component: main"]
    known = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split("\n")
    sources.write_text("".join(f"deb {line} {SECTIONS}\n" for line in sorted({*known} - {""})), "utf-8")
    options = (
        *("-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"),
        *("-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={packages}", "-o", "APT::Sandbox::User=root"),
    )
    updated = subprocess.run(["apt-get", *options, "update", "-q"], capture_output=True, text=True, check=False)
    if updated.returncode:
        raise SystemExit(f"Debian's package lists cannot be fetched: {updated.stderr.strip()}")
    return options
