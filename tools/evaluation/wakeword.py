"""Wake word: misses on recordings of the word, false activations on everything else, for each engine.

Every recording goes through the agent's own activation (voice activity gate and engine) in frames, followed by a
second of silence, from a fresh start. Recordings of the word also go through the engine without its gate. Recordings
whose text holds the word among others are left out.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from tools.evaluation.audio import UnfitError
from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, Work, each
from tools.evaluation.report import percent, rate, table
from tools.evaluation.selection import choose, limited, sentence
from tools.output import output, write_text
from tools.train.data.corpus import Item
from voiceid.activation.engines import make_engine
from voiceid.activation.wake_word import WakeWord
from voiceid.audio import read_waveform
from voiceid.audio.frames import Framer
from voiceid.types import SAMPLE_RATE, Samples

KINDS = ("tts", "vc", "vocoder", "replay", "adversarial", "noise")
TAIL = 1.0
"""Seconds of silence after a recording: engines answer late, and a room is quiet after the word."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of one recording: ``activations`` and processor ``cpu`` seconds by engine that heard it, ``ungated``
    for the word.
    """

    seconds: float
    activations: dict[str, int]
    ungated: dict[str, bool]
    cpu: dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--word", default="alexa", help="the wake word (default alexa)")
    parser.add_argument("--engines", default="micro,open", help="engines to measure (default micro,open)")
    parser.add_argument(
        "--share",
        type=_share,
        action="append",
        default=[],
        metavar="ENGINE=N",
        help="let a slow engine hear only N of the recordings without the word, drawn with the seed",
    )
    parser.add_argument("--page", type=output, metavar="OUT", help="write the result as a page (Markdown), too")
    parser.epilog = "All recordings of the word are measured; --limit applies to the others."


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    word, engines = arguments.word, tuple(arguments.engines.split(","))
    chosen = choose(options, KINDS)
    spoken = [item for item in chosen if sentence(item) == word]
    if not spoken:
        raise EvaluationError(f"{options.index}: no row has the text {word!r}; check --word and --sets")
    others = [item for item in chosen if word not in sentence(item).split()]
    shares: dict[str, int] = dict(arguments.share)
    if unknown := set(shares) - set(engines):
        raise EvaluationError(f"--share {', '.join(sorted(unknown))}: not among the engines {', '.join(engines)}")
    drawn = {
        name: frozenset(item.path for item in limited(others, replace(options, limit=shares.get(name, options.limit))))
        for name in engines
    }
    account, heard_by_any = Account(), frozenset[Path]().union(*drawn.values())
    items = spoken + [item for item in others if item.path in heard_by_any]
    heard = each(partial(listening, word, drawn), items, jobs=options.jobs, account=account, label="wake word")
    result = {
        "command": "wakeword",
        "word": word,
        "others": {name: len(paths) for name, paths in drawn.items()},
        "engines": summarise(heard, word, engines),
    }
    text = describe(result)
    if arguments.page is not None:
        write_text(arguments.page, page(result, text))
    return result, text, account


def _share(text: str) -> tuple[str, int]:
    engine, _, count = text.partition("=")
    return engine, int(count)


def listening(word: str, drawn: Mapping[str, frozenset[Path]]) -> Work:
    """A function that lets every engine hear one recording, if it is of the word or ``drawn`` for the engine."""
    bare = {name: make_engine(name, word) for name in drawn}  # type: ignore[arg-type]
    gated = {name: WakeWord(engine, word) for name, engine in bare.items()}

    def hear(item: Item) -> Heard:
        samples = read_waveform(item.path).samples
        if not samples.any():
            raise UnfitError("digital silence")
        followed = np.concatenate((samples, np.zeros(round(TAIL * SAMPLE_RATE), np.float32)))
        activations, ungated, cpu = {}, {}, {}
        for name in (name for name in drawn if sentence(item) == word or item.path in drawn[name]):
            gated[name].reset()
            start = time.process_time()
            activations[name] = sum(gated[name].feed(frame) is not None for frame in Framer().push(followed))
            cpu[name] = time.process_time() - start
            if sentence(item) == word:
                bare[name].reset()
                ungated[name] = any(p > bare[name].threshold for p in _probabilities(bare[name], followed))
        return Heard(len(followed) / SAMPLE_RATE, activations, ungated, cpu)

    return hear


def _probabilities(engine: Any, samples: Samples) -> Iterator[float]:
    for frame in Framer().push(samples):
        yield engine.feed((np.clip(frame, -1, 1) * 32767).astype("<i2").tobytes())


def summarise(heard: Sequence[tuple[Item, Heard]], word: str, engines: Sequence[str]) -> dict[str, Any]:
    """Figures by engine."""
    spoken = [result for item, result in heard if sentence(item) == word]
    others = [(item, result) for item, result in heard if sentence(item) != word]
    by_set: dict[str, dict[str, list[Heard]]] = {name: defaultdict(list) for name in engines}
    for item, result in others:
        for name in result.activations:
            by_set[name][item.set].append(result)
    return {
        name: {
            "missed": rate(sum(not h.activations[name] for h in spoken), len(spoken)),
            "missed_ungated": rate(sum(not h.ungated[name] for h in spoken), len(spoken)),
            "false": false_activations([h for _, h in others if name in h.activations], name),
            "false_by_set": {key: false_activations(part, name) for key, part in sorted(by_set[name].items())},
            "cpu_per_second": sum(h.cpu.get(name, 0.0) for _, h in heard)
            / sum(h.seconds for _, h in heard if name in h.activations),
        }
        for name in engines
    }


def false_activations(heard: Iterable[Heard], engine: str) -> dict[str, Any]:
    """Activations an hour with the exact 95 % interval of a Poisson count (Garwood 1936)."""
    heard = list(heard)
    hours, count = sum(h.seconds for h in heard) / 3600, sum(h.activations[engine] for h in heard)
    if not hours:
        return {"count": 0, "hours": 0.0, "per_hour": None, "ci95": None}
    low = float(chi2.ppf(0.025, 2 * count) / 2) if count else 0.0
    high = float(chi2.ppf(0.975, 2 * (count + 1)) / 2)
    return {"count": count, "hours": hours, "per_hour": count / hours, "ci95": [low / hours, high / hours]}


def describe(result: dict[str, Any]) -> str:
    """A row for each engine, then false activations by set."""
    rows, parts = [], []
    for name, part in result["engines"].items():
        missed, ungated, wrong = part["missed"], part["missed_ungated"], part["false"]
        rows.append(
            [
                name,
                f"{missed['errors']} of {missed['n']}",
                percent(missed["rate"]),
                _span(missed["ci95"], 100, " %"),
                percent(ungated["rate"]),
                f"{wrong['count']} in {wrong['hours']:.2f} h",
                _span(wrong["ci95"], 1, " / h"),
                f"{part['cpu_per_second']:.4f}",
            ]
        )
        parts += [
            [f"{name}: {key}", str(found["count"]), f"{found['hours']:.2f}"]
            for key, found in part["false_by_set"].items()
            if found["count"]
        ]
    headers = ["engine", "missed", "", "95 % interval", "without gate", "false", "95 % interval", "CPU s / s"]
    return "\n".join(
        [table(headers, rows), "", table(["false activations by set", "count", "hours"], parts)]
        if parts
        else [table(headers, rows)]
    )


def _span(values: Sequence[float] | None, scale: float, unit: str) -> str:
    return "-" if values is None else f"{scale * values[0]:.2f} - {scale * values[1]:.2f}{unit}"


def page(result: dict[str, Any], text: str) -> str:
    """The result for people."""
    others = result["others"]
    summary = " ".join((__doc__ or "").split("\n\n")[1].split())
    return (
        "# Wake word\n\nWritten by `python tools/evaluate.py wakeword --page`; the JSON beside this page holds every "
        f"detail. The word is *{result['word']}*. {summary} Thresholds are the engines' own. Intervals are Wilson's "
        "for misses and Garwood's for counts; recordings of one person are not independent: true intervals are wider. "
        f"Recordings without the word: {', '.join(f'{count} for engine {name}' for name, count in others.items())}."
        f"\n\n    {text.replace(chr(10), chr(10) + '    ')}\n"
    )
