"""The options that every measurement shares."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from tools.output import output


class EvaluationError(Exception):
    """A measurement that cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which rows are measured, with which card, and where the result goes."""

    index: Path
    sets: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    split: str | None = None
    card: str | None = None
    json: Path | None = None
    seed: int = 0
    limit: int | None = None
    jobs: int = 1
    max_failures: float = 0.05
    """Share of chosen files that may be missing or unreadable before the measurement counts as failed."""
    cache: bool = True


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the shared options."""
    parser.add_argument(
        "--index",
        type=Path,
        default=_default_index(),
        required=_default_index() is None,
        help="CSV with at least path (relative to its folder), speaker, kind (default: $VOICEID_CORPUS/index.csv)",
    )
    parser.add_argument("--sets", type=_names, default=(), metavar="A,B", help="only rows of these sets")
    parser.add_argument(
        "--kinds",
        type=_names,
        default=(),
        metavar="K,L",
        help="only attacks of these kinds (bona fide rows always stay)",
    )
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="only rows of this split of the training corpus"
    )
    parser.add_argument("--card", help="measure this model card instead of the shipped one (name or path)")
    parser.add_argument("--json", type=output, metavar="OUT", help="write the result as one JSON object")
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (default 0)")
    parser.add_argument("--limit", type=_positive, metavar="N", help="try a seeded choice of N files")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument(
        "--max-failures",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="exit 1 when more files than this share cannot be read (default 0.05)",
    )
    parser.add_argument("--no-cache", dest="cache", action="store_false", help="compute everything anew")


def options_from(arguments: argparse.Namespace) -> Options:
    """The shared part of parsed arguments."""
    return Options(**{name: getattr(arguments, name) for name in Options.__dataclass_fields__})


def _default_index() -> Path | None:
    folder = os.environ.get("VOICEID_CORPUS")
    return Path(folder) / "index.csv" if folder else None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value
