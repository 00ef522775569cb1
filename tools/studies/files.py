"""Result files of studies: written whole or not at all, and kept while what they were made from stays the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.studies.results import whole_file

KEY = "made_from"
"""Entry of a result that holds the digest of what it was made from."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content``; NaN and infinity are errors, not values.

    Raises:
        ValueError: ``content`` holds one.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with whole_file(path) as temporary:
        temporary.write_text(text, "utf-8")


def digest(*parts: Any) -> str:
    """A short hash of values whose ``repr`` says all of them."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]


def kept(
    path: Path, made_from: str, make: Callable[[], dict[str, Any]], *, beside: Sequence[Path] = ()
) -> dict[str, Any]:
    """The result in ``path`` if it was ``made_from`` the same, else a new one, written there.

    A file that cannot be read is made anew, as is a result without the files ``beside`` it that belong to it.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if result[KEY] == made_from and all(file.exists() for file in beside):
            return result
    except (OSError, ValueError, TypeError, KeyError):
        pass
    result = {**make(), KEY: made_from}
    write_json(path, result)
    return result
