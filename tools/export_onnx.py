"""Export a trained or official checkpoint to ONNX: ``python -m tools.export_onnx ROLE CHECKPOINT [-o OUT]``.

Each role's exporter is ``tools/train/export/<role>.py``; it checks the graph against torch before it counts as done.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

EXPORTERS = Path(__file__).resolve().parent / "train" / "export"


def roles() -> list[str]:
    """Roles that have an exporter."""
    return sorted(path.stem for path in EXPORTERS.glob("*.py") if path.stem != "__init__")


def parse_option(text: str) -> tuple[str, str]:
    """``name=value`` as a pair."""
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=roles(), metavar="ROLE", help=", ".join(roles()))
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("-o", "--output", type=Path, help="default: the checkpoint's name with .onnx, in this folder")
    parser.add_argument(
        "--set", type=parse_option, action="append", default=[], metavar="NAME=VALUE", help="an option of the exporter"
    )
    parsed = parser.parse_args(arguments)
    if not parsed.checkpoint.is_file():
        parser.error(f"{parsed.checkpoint}: no such checkpoint")
    output = parsed.output or Path(parsed.checkpoint.with_suffix(".onnx").name)
    if output.suffix != ".onnx":
        parser.error(f"{output}: the output must end in .onnx")
    export = importlib.import_module(f"tools.train.export.{parsed.role}").export
    options = dict(parsed.set)
    if unknown := sorted(set(options) - set(inspect.signature(export).parameters)):
        parser.error(f"the {parsed.role} exporter has no option {unknown[0]!r}")
    error = export(parsed.checkpoint, output, **options)
    print(f"{output}: {output.stat().st_size / 1e6:.2f} MB, largest difference from torch {error:.1e}")


if __name__ == "__main__":
    main()
