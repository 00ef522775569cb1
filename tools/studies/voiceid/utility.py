"""Table III: word error rates of recognisers on untransformed and transformed recordings, and their real-time factors.

Transcripts are kept, one file each, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.evaluation.parallel import Account, each
from tools.evaluation.selection import read_rows
from tools.studies.errors import StudyError
from tools.studies.results import digest, kept, write_json
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.recognisers import load_recogniser, normalised, version
from tools.studies.voiceid.tables import Table
from tools.studies.voiceid.transform import RAW, shown
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of one recording: word errors of its reference's words, processor and audio seconds."""

    speaker: str
    errors: int
    words: int
    cpu: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Transcribing:
    """Makes the function that transcribes a file, unless its transcript is there."""

    recogniser: str
    folder: Path

    def __call__(self) -> Callable[[Item], Heard]:
        recognise = load_recogniser(self.recogniser)

        def work(item: Item) -> Heard:
            samples = read_waveform(item.path).samples
            path = self.folder / f"{item.set}-{item.path.stem}-{zlib.crc32(samples.tobytes()):08x}.json"
            try:
                found = json.loads(path.read_text("utf-8"))
                found = {"text": str(found["text"]), "cpu": float(found["cpu"])}
            except (OSError, ValueError, KeyError, TypeError):
                start = time.process_time()
                text = recognise(samples)
                found = {"text": text, "cpu": time.process_time() - start}
                write_json(path, found)
            errors, words = word_errors(item.text, found["text"])
            return Heard(item.speaker, errors, words, found["cpu"], len(samples) / SAMPLE_RATE)

        return work


def word_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """Substitutions, deletions and insertions, and the words of ``reference``; both texts are normalised first."""
    import jiwer  # the extra [train]

    wanted = normalised(reference)
    result = jiwer.process_words(wanted, normalised(hypothesis))
    return result.substitutions + result.deletions + result.insertions, len(wanted.split())


def step(study: Study) -> dict[str, Any]:
    """Word error rates by recogniser and transformation."""
    index = study.transformed
    for name in study.utility.recognisers:
        load_recogniser(name)  # what cannot be loaded is told here, not by a worker
    versions = [version(name) for name in study.utility.recognisers]
    key = digest(index.read_bytes(), study.utility, versions)
    return kept(study.output / "utility.json", key, lambda: _measure(study, index))


def _measure(study: Study, index: Path) -> dict[str, Any]:
    items = chosen(read_rows(index), study.utility.utterances)
    if not items:
        raise StudyError(f"{index}: no recording has a transcript (column text); word error rates need one each")
    result: dict[str, Any] = {"recordings": sum(item.set == RAW for item in items), "recognisers": {}}
    for name in study.utility.recognisers:
        account = Account()
        transcribing = Transcribing(name, study.output / "transcripts" / f"{name}-{version(name)}")
        heard = each(transcribing, items, jobs=study.jobs, account=account, label=name)
        refuse_failures(account)
        sets: dict[str, list[Heard]] = defaultdict(list)
        for item, one in heard:
            sets[item.set].append(one)
        figures = {transformation: rates(own) for transformation, own in sets.items()}
        result["recognisers"][name] = {"version": version(name), "sets": figures, "files": account.as_json()}
    return result


def chosen(items: Sequence[Item], utterances: int) -> list[Item]:
    """The transcribed among ``items``: of every person the same ``utterances`` recordings, in every transformation."""
    taken: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if item.set == RAW and normalised(item.text) and len(taken[item.speaker]) < utterances:
            taken[item.speaker].append(item.pair)
    pairs = {pair for own in taken.values() for pair in own}
    return [item for item in items if item.pair in pairs]


def rates(heard: Sequence[Heard]) -> dict[str, Any]:
    """Word error rate with its 95 % interval (bootstrap over speakers) and the mean real-time factor."""
    errors, words = (np.array([getattr(one, what) for one in heard], float) for what in ("errors", "words"))
    speakers = [one.speaker for one in heard]
    low, high = metrics.bootstrap_ci(_error_rate, (errors, words), (speakers, speakers))
    return {
        "wer": _error_rate(errors, words),
        "ci95": [low, high],
        "rtf": sum(one.cpu for one in heard) / sum(one.seconds for one in heard),
        "recordings": len(heard),
        "words": int(words.sum()),
        "speakers": len(set(speakers)),
    }


def _error_rate(errors: Any, words: Any) -> float:
    return float(np.sum(errors) / np.sum(words))


def tables(result: dict[str, Any]) -> list[Table]:
    """Recognisers by transformation."""
    rows = []
    for name, part in result["recognisers"].items():
        raw = part["sets"].get(RAW, {}).get("wer")
        for transformation, figures in part["sets"].items():
            low, high = figures["ci95"]
            rows.append(
                [
                    name,
                    shown(transformation),
                    f"{100 * figures['wer']:.1f} % ({100 * low:.1f} to {100 * high:.1f})",
                    "" if raw is None or transformation == RAW else f"{100 * (figures['wer'] - raw):+.1f}",
                    f"{figures['rtf']:.3f}",
                    str(figures["recordings"]),
                    str(figures["words"]),
                ]
            )
    caption = (
        "Word error rate with its 95 % interval (bootstrap over people), the difference to untransformed recordings "
        "in points, and the recogniser's processor time over the length of the audio. Texts are compared in lower "
        "case without punctuation; numbers that a recogniser writes in digits count as errors."
    )
    headers = ("recogniser", "transformation", "WER", "penalty", "real-time factor", "recordings", "words")
    return [Table("Table III: utility", caption, headers, rows)]
