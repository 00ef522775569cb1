"""What the clients of a load together experienced."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts, and seconds from each honest request to its answer."""

    seconds: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Honest requests that were refused, by the name of the documented fault."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Honest requests without answer or refusal, by what happened instead."""
    spoken: Counter[str] = field(default_factory=Counter)
    """Answers to what was said into the microphone."""
    attacks: Counter[str] = field(default_factory=Counter)
    """Hostile connections by kind."""
