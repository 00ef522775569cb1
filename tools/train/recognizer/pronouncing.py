"""Phones of words, by the CMU dictionary that pocketsphinx brings."""

from __future__ import annotations

from functools import cache

from tools.train.phones import PHONES


class Pronunciations:
    """From a text to phone numbers from 1 (an index into :data:`tools.train.phones.PHONES` plus one)."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        decoder = Decoder(lm=None, loglevel="FATAL")
        self._word = cache(lambda word: decoder.lookup_word(word))

    def __call__(self, text: str) -> list[int]:
        """Phones of all words; [] where a word is in no dictionary."""
        found = [self._word(word) for word in text.split()]
        if not all(found):
            return []
        return [PHONES.index(phone) + 1 for word in found for phone in word.split()]
