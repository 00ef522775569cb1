"""Where generated attacks and features rest between runs."""

from __future__ import annotations

import os
from pathlib import Path


def spoofing_cache() -> Path:
    """``$VOICEID_CACHE``/spoofing, by default ~/.cache/voiceid/spoofing."""
    folder = Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid") / "spoofing"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def attack_folder(system: str) -> Path:
    """The folder of attacks by ``system``, made if need be."""
    folder = spoofing_cache() / system
    folder.mkdir(exist_ok=True)
    return folder
