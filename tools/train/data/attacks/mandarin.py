"""Random Mandarin, for synthesizers that read the phones of the Baker corpus: an initial and a final with its tone."""

from __future__ import annotations

import re

from tools.train.data.attacks.babble import Alphabet

ROWS = {
    "b p m": "a ai an ang ao ei en eng i ian iao ie in ing o u",
    "f": "a an ang ei en eng ou u",
    "d t": "a ai an ang ao e eng i ian iao ie ing ong ou u uan uei uen uo",
    "n l": "a ai an ang ao ei eng i ian iang iao ie in ing iou ong u uan uo v ve",
    "g k h": "a ai an ang ao e en eng ong ou u ua uai uan uang uei uen uo",
    "j q x": "i ia ian iang iao ie in ing iong iou v van ve vn",
    "zh ch sh": "a ai an ang ao e en eng iii ou u uai uan uang uei uen uo",
    "r": "an ang ao e en eng iii ong ou u uan uei uen uo",
    "z c s": "a ai an ang ao e en eng ii ong ou u uan uei uen uo",
    "^": "a ai an ao e en i ia ian iang iao ie in ing iong iou u ua uai uan uang uei uen uo v van ve vn",
}
"""Which finals follow which initials; ``^`` is none."""
TONES = ("1", "2", "3", "4")
PINYIN = Alphabet(
    tuple(initial + final for row, finals in ROWS.items() for initial in row.split() for final in finals.split()),
    TONES,
    ("",),
    closed=0.0,
)
SYLLABLE = re.compile(r"(zh|ch|sh|[a-z^])([a-z]+\d)")
IN_WORD, BETWEEN_WORDS, BETWEEN_PHRASES, SILENCE = "#0", "#1", "#3", "sil"


def phones(text: str) -> list[str]:
    """The phones and breaks of babble in `PINYIN`, between silences.

    Raises:
        ValueError: ``text`` holds none.
    """
    said: list[str] = []
    for word in text.split():
        syllables = SYLLABLE.findall(word)
        for position, (initial, final) in enumerate(syllables):
            said += [initial, final, IN_WORD if position < len(syllables) - 1 else BETWEEN_WORDS]
        if syllables and word.endswith(","):
            said[-1] = BETWEEN_PHRASES
    if not said:
        raise ValueError(f"no syllables in {text!r}: write them as in 'sh' + 'uang1', words apart")
    return [SILENCE, *said[:-1], SILENCE]
