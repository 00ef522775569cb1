"""A decision in JSON's types, for admins."""

from __future__ import annotations

import math
from dataclasses import asdict
from enum import Enum
from typing import Any

from voiceid.service.judge import Verdict


def detail_of(verdict: Verdict) -> dict[str, Any]:
    """Every field of the decision but the user; numbers that are not finite become null.

    ``early`` tells whether it was ready before the end of the utterance was certain.
    """
    decision = verdict.decision
    table: dict[str, Any] = _plain(asdict(decision))
    del table["user"]
    if decision.evidence is not None:
        for name, score in decision.evidence.scores().items():
            table["evidence"][name]["passed"] = score.verdict
        del table["evidence"]["windows"]
    return table | {"early": verdict.early}


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
