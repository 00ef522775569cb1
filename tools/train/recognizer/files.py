"""Where synthetic speech and prepared training data rest between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """``$VOICEID_CACHE``/words/``name``, by default under ~/.cache/voiceid; made if need be."""
    folder = Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid") / "words" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
