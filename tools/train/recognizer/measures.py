"""Word errors."""

from __future__ import annotations

from collections.abc import Sequence


def word_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """Substitutions, deletions and insertions (the fewest), and the words of ``reference``; both are plain words."""
    wanted, found = reference.split(), hypothesis.split()
    return edits(wanted, found), len(wanted)


def edits(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Levenshtein distance."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(wanted, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1]
