"""A decision in JSON's types, for admins."""

from __future__ import annotations

import math
from dataclasses import asdict
from enum import Enum
from typing import Any

from voiceid.types import Decision


def detail_of(decision: Decision) -> dict[str, Any]:
    """Every field of ``decision`` but the user; numbers that are not finite become null."""
    table: dict[str, Any] = _plain(asdict(decision))
    del table["user"]
    if decision.evidence is not None:
        for name in ("identity", "spoofing", "liveness", "consistency"):
            table["evidence"][name]["passed"] = getattr(decision.evidence, name).passed
        del table["evidence"]["windows"]
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
