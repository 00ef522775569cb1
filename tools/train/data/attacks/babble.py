"""Words of random syllables in several scripts, for synthesizers of languages in which we have no sentences.

What is said does not matter to a detector of synthesis; that it is pronounceable, with phrases and endings, does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Alphabet:
    """Letters of a language; a syllable is an onset, a vowel and, with probability ``closed``, a coda."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    closed: float = 0.3


def _alphabet(onsets: str, vowels: str, codas: str, closed: float = 0.3) -> Alphabet:
    return Alphabet(tuple(onsets.split()), tuple(vowels.split()), tuple(codas.split()), closed)


LATIN = _alphabet("b d f g k l m n p r s t v z br dr gr kr pr tr pl sl st", "a e i o u a e o", "n r s l m t")
CZECH = _alphabet("b d f h j k l m n p r s t v z č š ž ř c pr tr st sl kr", "a e i o u á é í ou", "n r s l m t k š")
FINNISH = _alphabet("h j k l m n p r s t v", "a e i o u ä ö aa ee ii uu ai ie uo", "n s l r t")
CYRILLIC = _alphabet("б в г д ж з к л м н п р с т ф х ч ш ст пр тр кр гр", "а е и о у я ю ы", "н р с л м т к й")


def babble(alphabet: Alphabet, random: np.random.Generator, syllables: int = 24) -> str:
    """About ``syllables`` syllables in words and phrases, ending as a statement or a question."""
    words: list[str] = []
    left = syllables + int(random.integers(-syllables // 3, syllables // 3 + 1))
    while left > 0:
        length = min(left, int(random.integers(1, 5)))
        left -= length
        word = "".join(_syllable(alphabet, random) for _ in range(length))
        words.append(word + ("," if left > 4 and random.random() < 0.12 else ""))
    return " ".join(words) + str(random.choice([".", ".", ".", "?"]))


def _syllable(alphabet: Alphabet, random: np.random.Generator) -> str:
    closing = str(random.choice(alphabet.codas)) if random.random() < alphabet.closed else ""
    return str(random.choice(alphabet.onsets)) + str(random.choice(alphabet.vowels)) + closing
