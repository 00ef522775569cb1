"""What the recogniser writes: a blank, a space before every word, apostrophe and letters."""

from __future__ import annotations

BLANK = 0
LETTERS = " 'abcdefghijklmnopqrstuvwxyz"
"""Label ``i + 1`` is ``LETTERS[i]``; label 0 is CTC's blank."""
LABELS = len(LETTERS) + 1
SPACE = 1


def encode(text: str) -> list[int]:
    """Labels of a text of words in ``LETTERS``; each word begins with its space."""
    return [LETTERS.index(letter) + 1 for letter in "".join(f" {word}" for word in text.split())]


def decode(labels: list[int]) -> str:
    """The text of ``labels``, which hold no blank."""
    return " ".join("".join(LETTERS[label - 1] for label in labels).split())
