"""What is fuzzed: a function from bytes, and inputs to begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TARGETS = ("protocol", "dispatcher", "envelope", "card", "settings", "records", "audio")


@dataclass(frozen=True, slots=True)
class Target:
    """``run`` takes any bytes and raises for what is a finding; refusing its input, by the typed error, is none."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    max_length: int
    words: tuple[str, ...] = ()
    """What the mutator puts in now and then."""
    json: bool = False
    """Whether inputs are JSON, whose values are changed as well as its bytes."""


def load_target(name: str, folder: Path) -> Target:
    """The target ``name``, one of :data:`TARGETS`, which may write into ``folder``."""
    from importlib import import_module

    make: Callable[[Path], Target] = import_module(f"tools.fuzz.targets.{name}").make
    return make(folder)
