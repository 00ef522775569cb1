"""What importing ``voiceid`` pulls in: none of the offline libraries may be among it."""

from __future__ import annotations

import argparse
import json
import pkgutil
import subprocess
import sys

import voiceid
from tools.output import output

FORBIDDEN = ("torch", "librosa", "numba", "sklearn", "scipy")


def loaded(modules: list[str]) -> list[str]:
    """Top-level packages that a fresh interpreter holds after importing ``modules``."""
    code = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=output, help="JSON")
    arguments = parser.parse_args()
    names = [
        "voiceid",
        *(m.name for m in pkgutil.walk_packages(voiceid.__path__, "voiceid.") if "__main__" not in m.name),
    ]
    found = loaded([name for name in names if not name.endswith("footprint")])
    result = {"modules": len(names), "forbidden": [name for name in FORBIDDEN if name in found]}
    arguments.output.write_text(json.dumps(result) + "\n", "utf-8")
    print(result)


if __name__ == "__main__":
    main()
