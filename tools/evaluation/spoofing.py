"""Spoofing: bona fide speech against synthesis, conversion and vocoded speech."""

from __future__ import annotations

import argparse
from typing import Any

from tools.evaluation import det, pad
from tools.evaluation.options import Options
from tools.evaluation.parallel import Account


def add_arguments(parser: argparse.ArgumentParser) -> None:
    det.add_option(parser)
    parser.epilog = f"Without --kinds: {', '.join(pad.SYNTHESIS)}."


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    return pad.measure("spoofing", pad.SYNTHESIS, options)
