"""Verification trials on the development or test speakers: enrolment from three utterances, tests of any length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.voices import WORD_SETS, Bank, Clip
from tools.train.metrics import bootstrap_ci, eer
from voiceid.types import SAMPLE_RATE, Samples

Embedding = NDArray[np.float32]
ENROLLED = 3
"""Utterances behind a template."""
MIN_TESTS = 2
"""Speakers with fewer further utterances are left out."""
MIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Trials:
    """Raw scores, each with the enrolled speaker of its trial and the seconds of speech that were tried."""

    target: NDArray[np.float64]
    target_speakers: list[str]
    target_seconds: NDArray[np.float64]
    nontarget: NDArray[np.float64]
    nontarget_speakers: list[str]
    nontarget_seconds: NDArray[np.float64]

    @classmethod
    def of(cls, rows: list[tuple[bool, float, str, float]]) -> Trials:
        """From whether it is the enrolled speaker, score, enrolled speaker and seconds of every trial."""
        sides = []
        for wanted in (True, False):
            own = [row for row in rows if row[0] is wanted]
            sides += [np.array([row[1] for row in own]), [row[2] for row in own], np.array([row[3] for row in own])]
        return cls(*sides)

    def metrics(self) -> dict[str, Any]:
        """Equal error rate with its 95 % interval by bootstrap over enrolled speakers, and trial counts."""
        scores, groups = (self.target, self.nontarget), (self.target_speakers, self.nontarget_speakers)
        low, high = bootstrap_ci(eer, scores, groups)
        return {
            "eer": round(eer(*scores), 5),
            "ci95": [round(low, 5), round(high, 5)],
            "n_target": len(self.target),
            "n_nontarget": len(self.nontarget),
            "speakers": len(set(self.target_speakers)),
        }


def join(parts: list[Trials]) -> Trials:
    """All trials of ``parts`` together."""
    return Trials(
        np.concatenate([part.target for part in parts]),
        [name for part in parts for name in part.target_speakers],
        np.concatenate([part.target_seconds for part in parts]),
        np.concatenate([part.nontarget for part in parts]),
        [name for part in parts for name in part.nontarget_speakers],
        np.concatenate([part.nontarget_seconds for part in parts]),
    )


class Verification:
    """Trials of one embedder on one bank; embeddings are kept, so that scores can be tried at no cost."""

    def __init__(self, bank: Bank, embed: Callable[[Samples], Embedding], *, seed: int = 0, most: int = 40) -> None:
        """``most`` bounds the utterances of a speaker."""
        self._bank, self._embed, self._seed = bank, embed, seed
        rng = np.random.default_rng(seed)
        groups: defaultdict[str, list[Clip]] = defaultdict(list)
        for clip in bank.clips:
            if clip.speaker and clip.set not in WORD_SETS and clip.length >= MIN_SECONDS * SAMPLE_RATE:
                groups[clip.speaker].append(clip)
        self.speakers = {
            name: [clips[i] for i in rng.permutation(len(clips))[:most]]
            for name, clips in sorted(groups.items())
            if len(clips) >= ENROLLED + MIN_TESTS
        }
        self._known: dict[tuple[int, int, int], Embedding] = {}

    def run(
        self, score: Callable[[Embedding, Embedding, float], float], seconds: float | None = None, *, rounds: int = 1
    ) -> Trials:
        """Try every test utterance, cut to ``seconds`` (shorter ones are left out), against every template (3, d).

        ``rounds`` enrols each speaker so many times, each from other utterances.
        """
        rng = np.random.default_rng((self._seed, int(100 * (seconds or 0))))
        starts = {clip.offset: rng.random() for clips in self.speakers.values() for clip in clips}
        rows: list[tuple[bool, float, str, float]] = []
        for number in tqdm(range(rounds), desc=f"trials of {seconds or 'all'} s", leave=False):
            templates = self.templates(number)
            for speaker, clips in self.speakers.items():
                for i in _order(clips, number)[ENROLLED:]:
                    embedding = self._cut(clips[i], seconds, starts[clips[i].offset])
                    if embedding is None:
                        continue
                    tried = seconds or clips[i].length / SAMPLE_RATE
                    for name, template in templates.items():
                        rows.append((name == speaker, score(template, embedding, tried), name, tried))
        return Trials.of(rows)

    def templates(self, number: int) -> dict[str, Embedding]:
        """The embeddings (3, d) that enrol each speaker in round ``number``."""
        return {
            name: np.stack([self._whole(clips[i]) for i in _order(clips, number)[:ENROLLED]])
            for name, clips in self.speakers.items()
        }

    def _whole(self, clip: Clip) -> Embedding:
        return self._remember(clip, 0, clip.length)

    def _cut(self, clip: Clip, seconds: float | None, start: float) -> Embedding | None:
        if seconds is None:
            return self._whole(clip)
        length = int(seconds * SAMPLE_RATE)
        return self._remember(clip, int(start * (clip.length - length)), length) if clip.length >= length else None

    def _remember(self, clip: Clip, start: int, length: int) -> Embedding:
        key = (clip.offset, start, length)
        if key not in self._known:
            self._known[key] = _unit(self._embed(self._bank.samples(clip)[start : start + length]))
        return self._known[key]


def _order(clips: list[Clip], number: int) -> NDArray[np.int64]:
    """In which order round ``number`` takes a speaker's clips: the first enrol."""
    return np.roll(np.arange(len(clips)), -ENROLLED * number)


def _unit(vector: Embedding) -> Embedding:
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)
