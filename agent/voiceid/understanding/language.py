"""A language model of letters, and free text by it: prefix beam search over CTC (Hannun et al., arXiv 1408.2873)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.understanding.alphabet import BLANK, LETTERS

ORDER = 8
"""Letters that the model looks at, the one it predicts included."""
MAX_LANGUAGE = 1 << 23
WEIGHT, BONUS = 0.6, 0.6
"""Of the language model's log-probability, and for every letter, since the model favours few letters."""
BEAM, LETTERS_A_FRAME = 24, 6
LEAST = math.log(1e-4)
"""Log-probability below which a letter is not tried."""
NOTHING = -math.inf


class LanguageModel:
    """N-grams of letters, interpolated after Witten and Bell: every context says how far it is to be believed."""

    def __init__(self, counts: dict[str, int]) -> None:
        """From counts of all strings of up to :data:`ORDER` letters."""
        self._counts = counts
        totals: dict[str, int] = defaultdict(int)
        kinds: dict[str, int] = defaultdict(int)
        for gram, count in counts.items():
            totals[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        self._totals, self._kinds = dict(totals), dict(kinds)
        self.log_probability = lru_cache(1 << 18)(self._log_probability)

    @classmethod
    def learn(cls, texts: Iterable[str], *, least: int = 2) -> LanguageModel:
        """Count ``texts``; strings of four and more letters that occur fewer than ``least`` times are dropped."""
        counts: Counter[str] = Counter()
        for text in texts:
            line = f" {text} "
            for start in range(len(line)):
                counts.update(line[start : start + n] for n in range(1, min(ORDER, len(line) - start) + 1))
        return cls({gram: count for gram, count in counts.items() if count >= least or len(gram) < 4})

    @classmethod
    def read(cls, path: Path) -> LanguageModel:
        """The model in ``path``, as :meth:`write` left it.

        Raises:
            ModelError: unreadable.
        """
        try:
            with np.load(path, allow_pickle=False) as table:
                grams, counts = str(table["grams"]).split("\n"), table["counts"].tolist()
            return cls(dict(zip(grams, counts, strict=True)))
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{path}: not a readable language model ({error}); reinstall voiceid") from error

    def write(self, path: Path) -> None:
        """Write a compressed ``.npz`` file."""
        order = sorted(self._counts)
        np.savez_compressed(path, grams=np.array("\n".join(order)), counts=[self._counts[gram] for gram in order])

    def _log_probability(self, context: str, letter: str) -> float:
        probability = 1 / len(LETTERS)
        for start in range(len(context), -1, -1):
            known = context[start:]
            total = self._totals.get(known, 0)
            if not total:
                break
            kinds = self._kinds[known]
            probability = (self._counts.get(known + letter, 0) + kinds * probability) / (total + kinds)
        return math.log(probability)


def transcribe(posteriors: NDArray[np.float32], model: LanguageModel | None) -> str:
    """The likeliest text in ``posteriors`` (T, labels); without ``model``, the best label of every frame."""
    if model is None or not len(posteriors):
        best = posteriors.argmax(axis=1)
        kept = best[(best != BLANK) & (np.diff(best, prepend=-1) != 0)] if len(best) else best
        return " ".join("".join(LETTERS[label - 1] for label in kept).split())
    beams: dict[str, tuple[float, float, float]] = {"": (0.0, NOTHING, 0.0)}  # ends in blank, in a letter; language
    for frame in posteriors:
        likely = [int(label) for label in np.argsort(frame)[-LETTERS_A_FRAME:] if label and frame[label] > LEAST]
        found: dict[str, list[float]] = {}
        for text, (blank, letter, language) in beams.items():
            either = np.logaddexp(blank, letter)
            _add(found, text, 0, either + frame[BLANK], language)
            if text:
                _add(found, text, 1, letter + frame[LETTERS.index(text[-1]) + 1], language)
            for label in likely:
                new = LETTERS[label - 1]
                if new == " " and text.endswith(" "):
                    continue
                before = blank if text.endswith(new) else either
                if before == NOTHING:
                    continue
                gain = WEIGHT * model.log_probability(text[1 - ORDER :], new) + BONUS
                _add(found, text + new, 1, before + frame[label], language + gain)
        ranked = sorted(found.items(), key=lambda item: -np.logaddexp(item[1][0], item[1][1]) - item[1][2])
        beams = {text: (scores[0], scores[1], scores[2]) for text, scores in ranked[:BEAM]}
    best_text = max(beams, key=lambda text: np.logaddexp(*beams[text][:2]) + beams[text][2])
    return " ".join(best_text.split())


def _add(found: dict[str, list[float]], text: str, ending: int, score: float, language: float) -> None:
    entry = found.setdefault(text, [NOTHING, NOTHING, language])
    entry[ending] = float(np.logaddexp(entry[ending], score))
