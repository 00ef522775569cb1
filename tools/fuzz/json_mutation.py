"""Changes one value somewhere in a JSON document, so that what follows the JSON parser is reached."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**64, 10**400, 1e308, -0.5, float("nan"), float("inf")),
    *("", "x", "\0", "\u202e", "../x", "A" * 1500, "\U0001f600", [], [[]], {}, {"x": 1}, [None], ["x"] * 9),
)


def mutate_json(data: bytes, seed: int, fallback: Callable[[], bytes]) -> bytes:
    """``data`` with one value replaced, taken out, doubled or renamed; ``fallback()`` where it is no JSON."""
    rng = random.Random(seed)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return fallback()
    places = list(_places(document))
    if not places or rng.random() < 0.2:
        return fallback()
    holder, key = rng.choice(places)
    change = rng.randrange(6)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[str(rng.choice(VALUES))[:20]] = holder.pop(key)
    elif change == 2:
        other, at = rng.choice(places)
        holder[key] = other[at] if _has(other, at) else None
    else:
        holder[key] = rng.choice(VALUES)
    try:
        return json.dumps(document).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # it came to hold itself
        return fallback()


def _places(value: Any) -> Any:
    """Every holder and key within ``value``."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)
