"""Words: word error rates and commands understood from units, from mel by the same network, and by Whisper.

Sentences are read by test speakers (``--read``), real orders are the rows whose note names an intent and slots, and the
other grammars' commands are synthetic, by voices that never train (tools.train.recognizer.synthetic --split test).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, Work, each
from tools.evaluation.report import card_summary, rate
from tools.evaluation.selection import limited, read_rows
from tools.evaluation.words_page import describe, page
from tools.output import output, write_text
from tools.train import metrics
from tools.train.recognizer.data import mel_of, plain
from tools.train.recognizer.measures import word_errors
from tools.train.recognizer.synthetic import spoken
from voiceid.audio import prepare, read_waveform
from voiceid.models.store import find_model
from voiceid.types import Samples
from voiceid.understanding.decoder import Decoder, Floats
from voiceid.understanding.grammar import load_grammar, shipped_grammars
from voiceid.understanding.language import LanguageModel, transcribe
from voiceid.understanding.recogniser import Recogniser, load_recogniser
from voiceid.understanding.understand import Understanding, understand
from voiceid.units.privacy import PrivacyProfile
from voiceid.units.tokenizer import Tokenizer

NOTE = re.compile(r"^intent (\w+)")
REAL, SYNTHETIC = "real orders", "synthetic"
FLOORS = {"coffee_from_units": 0.8, "aim": 0.92, "wer_cost_points": 8.0, "mel_wer_at_most": 0.35}


@dataclass(frozen=True, slots=True)
class Task:
    """One recording: ``group`` is what it measures, ``grammar`` is empty for a sentence."""

    path: Path
    group: str
    speaker: str
    text: str = ""
    grammar: str = ""
    intent: str = ""
    slots: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heard:
    """What one system made of a recording: text of a sentence, or what the grammars (by name) understood."""

    text: str
    commands: dict[str, tuple[Understanding, Understanding]]
    """With the card's threshold, and without any."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--units-card", default="units", help="the unit model (default units)")
    parser.add_argument("--mel", type=Path, metavar="CHECKPOINT", help="the same network trained on mel features")
    parser.add_argument("--whisper", action="store_true", help="also Whisper tiny.en on the sentences")
    parser.add_argument("--read", default="ls-test-clean,vctk-yourtts-gt", help="sets of sentences")
    parser.add_argument("--orders", default="coffee", help="the grammar of the rows that name an intent")
    parser.add_argument("--page", type=output, metavar="OUT", help="write the result as a page (Markdown), too")
    parser.epilog = "--limit applies to the sentences; all commands are measured."


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    recogniser = load_recogniser(options.card or "words")
    tasks = sentences(options, arguments.read.split(",")) + orders(options, arguments.orders) + commands()
    if not tasks:
        raise EvaluationError(f"{options.index}: no sentences, no orders and no synthetic commands to measure")
    account = Account()
    make = partial(listening, options.card or "words", arguments.units_card, arguments.mel, arguments.whisper)
    heard = each(make, tasks, jobs=options.jobs, account=account, label="words")
    result: dict[str, Any] = {"command": "words", "card": card_summary(recogniser.card), **summarise(heard)}
    result["recogniser"] = recogniser.card.description
    result["floors"] = floors(result)
    text = describe(result)
    if arguments.page is not None:
        write_text(arguments.page, page(result))
    return result, text, account


def sentences(options: Options, sets: Sequence[str]) -> list[Task]:
    """Transcribed sentences of test speakers."""
    rows = [r for r in read_rows(options.index) if r.set in sets and r.kind == "bonafide" and plain(r.text)]
    rows = [r for r in rows if r.split == (options.split or "test")]
    return [Task(r.path, "sentences", r.speaker, plain(r.text)) for r in limited(rows, options)]


def orders(options: Options, grammar: str) -> list[Task]:
    """Real orders: rows whose note names the intent and its slots."""
    found = []
    for row in read_rows(options.index):
        if intent := NOTE.match(row.note):
            slots = dict(part.strip().split("=", 1) for part in row.note.split(";")[1:] if "=" in part)
            found.append(Task(row.path, REAL, row.speaker, "", grammar, intent[1], slots))
    return found


def commands() -> list[Task]:
    """Synthetic commands of the other grammars by voices that never train."""
    return [
        Task(path, SYNTHETIC, row.voice, row.text, row.grammar, row.intent, row.slots)
        for path, row in spoken("test")
        if row.grammar
    ]


def listening(card: str, units_card: str, mel: Path | None, whisper: bool) -> Work:
    """A function that lets every system hear one recording: its name to :class:`Heard`."""
    recogniser = load_recogniser(card)
    decoders = {name: Decoder(load_grammar(name)) for name in shipped_grammars()}
    language = None if recogniser.language is None else LanguageModel.read(recogniser.language)
    listen: dict[str, Callable[[Samples], Floats]] = {"units": _from_units(recogniser, units_card)}
    if mel is not None:
        listen["mel"] = _from_mel(mel)
    recognise = _whisper() if whisper else None

    def hear(task: Task) -> dict[str, Heard]:
        waveform = read_waveform(task.path)
        samples = prepare(waveform).samples
        found = {}
        for name, hearing in listen.items():
            posteriors = hearing(samples)
            text = "" if task.grammar else transcribe(posteriors, language)
            tried = [task.grammar] if task.grammar else list(decoders)
            understood = {grammar: _both(posteriors, decoders[grammar], recogniser) for grammar in tried}
            found[name] = Heard(text, understood)
        if recognise is not None and not task.grammar:
            found["whisper"] = Heard(plain(recognise(waveform.samples)), {})
        return found

    return hear


def _both(posteriors: Floats, decoder: Decoder, recogniser: Recogniser) -> tuple[Understanding, Understanding]:
    least = recogniser.card.threshold("balanced")
    return (
        understand(posteriors, decoder, recogniser.calibration, least),
        understand(posteriors, decoder, recogniser.calibration, 0.0),
    )


def _from_units(recogniser: Recogniser, units_card: str) -> Callable[[Samples], Floats]:
    tokenizer = Tokenizer(find_model(units_card, "units"))
    codebook = recogniser.pin.codebook
    profile = PrivacyProfile(codebook)

    def hear(samples: Samples) -> Floats:
        units = profile.apply(tokenizer.encode(samples, codebook).tolist())
        return recogniser.posteriors(units, tokenizer.codebook_hash(codebook))

    return hear


def _from_mel(checkpoint: Path) -> Callable[[Samples], Floats]:
    import torch

    from tools.train.networks.words import load_network

    torch.set_num_threads(1)
    network = load_network(torch.load(checkpoint, map_location="cpu", weights_only=True))

    def hear(samples: Samples) -> Floats:
        with torch.no_grad():
            found: Floats = network(torch.from_numpy(mel_of(samples).astype(np.float32))[None])[0].numpy()
        return found

    return hear


def _whisper() -> Callable[[Samples], str]:
    from tools.studies.voiceid.recognisers import load_recogniser as load

    return load("whisper-tiny.en")


def summarise(heard: Sequence[tuple[Task, dict[str, Heard]]]) -> dict[str, Any]:
    """Word error rates, commands by group and grammar, and other speech taken for commands, by system."""
    read = [(task, found) for task, found in heard if not task.grammar]
    said = [(task, found) for task, found in heard if task.grammar]
    systems = sorted({name for _, found in heard for name in found})
    result: dict[str, Any] = {"wer": {}, "intents": {}, "false_commands": {}}
    for system in systems:
        texts = [(task, found[system].text) for task, found in read if system in found]
        if texts:
            result["wer"][system] = word_error_rate(texts)
        others = [
            both[0].understood for _, found in read if system in found for both in found[system].commands.values()
        ]
        if others:
            result["false_commands"][system] = rate(sum(others), len(others))
    if {"units", "mel"} <= set(result["wer"]):
        result["wer"]["cost"] = _cost(read)
    for group, grammar in sorted({(task.group, task.grammar) for task, _ in said}):
        members = [(task, found) for task, found in said if (task.group, task.grammar) == (group, grammar)]
        result["intents"][f"{grammar}, {group}"] = {
            system: understanding([(task, found[system].commands[grammar]) for task, found in members])
            for system in systems
            if all(system in found for _, found in members)
        }
    return result


def word_error_rate(texts: Sequence[tuple[Task, str]]) -> dict[str, Any]:
    """Word error rate with its 95 % interval (bootstrap over speakers) and counts."""
    counted = np.array([word_errors(task.text, text) for task, text in texts], float)
    speakers = [task.speaker for task, _ in texts]
    interval = metrics.bootstrap_ci(_share, (counted[:, 0], counted[:, 1]), (speakers, speakers))
    return {
        "wer": _share(counted[:, 0], counted[:, 1]),
        "ci95": list(interval),
        "words": int(counted[:, 1].sum()),
        "utterances": len(texts),
        "speakers": len(set(speakers)),
    }


def _cost(read: Sequence[tuple[Task, dict[str, Heard]]]) -> dict[str, Any]:
    """What units cost beside mel, in points of word error rate, on the same utterances."""
    units, mel, words = (
        np.array(column, float)
        for column in zip(
            *((word_errors(t.text, f["units"].text)[0], *word_errors(t.text, f["mel"].text)) for t, f in read),
            strict=True,
        )
    )
    speakers = [task.speaker for task, _ in read]

    def points(more: Any, less: Any, of: Any) -> float:
        return 100 * float((np.sum(more) - np.sum(less)) / np.sum(of))

    interval = metrics.bootstrap_ci(points, (units, mel, words), (speakers,) * 3)
    return {"points": points(units, mel, words), "ci95": list(interval)}


def _share(errors: Any, words: Any) -> float:
    return float(np.sum(errors) / np.sum(words))


def understanding(pairs: Sequence[tuple[Task, tuple[Understanding, Understanding]]]) -> dict[str, Any]:
    """Commands of one grammar: all right (intent and every slot), intent right, slots right, not understood.

    ``forced`` are the rates without a threshold. With at least four speakers, intervals are bootstrapped over them.
    """
    speakers = [task.speaker for task, _ in pairs]
    result: dict[str, Any] = {"n": len(pairs), "speakers": len(set(speakers)) if all(speakers) else None}
    for name, which in (("", 0), ("forced_", 1)):
        whole = [both[which].intent == task.intent and both[which].slots == task.slots for task, both in pairs]
        intent = [both[which].intent == task.intent for task, both in pairs]
        for kind, right in (("exact", whole), ("intent", intent)):
            result[name + kind] = _accuracy(right, speakers)
    result["not_understood"] = rate(sum(not both[0].understood for _, both in pairs), len(pairs))
    values = [(s, both[1].slots.get(s) == v) for task, both in pairs for s, v in task.slots.items()]
    spurious = sum(s not in task.slots for task, both in pairs for s in both[1].slots)
    names = sorted({name for name, _ in values})
    result["slots"] = {
        name: rate(sum(right for n, right in values if n == name), sum(n == name for n, _ in values)) for name in names
    }
    result["all_slots"] = rate(sum(right for _, right in values), len(values))
    result["spurious_slots"] = spurious
    return result


def _accuracy(right: Sequence[bool], speakers: Sequence[str]) -> dict[str, Any]:
    found = rate(sum(right), len(right))
    if all(speakers) and len(set(speakers)) >= 4:
        found["ci95"] = list(metrics.bootstrap_ci(lambda x: float(np.mean(x)), (np.array(right, float),), (speakers,)))
        found["ci95_over"] = "speakers"
    return found


def floors(result: dict[str, Any]) -> dict[str, Any]:
    """Which floors hold; None where they do not count or were not measured."""
    coffee = result["intents"].get(f"coffee, {REAL}", {}).get("units")
    wer, cost = result["wer"], result["wer"].get("cost")
    counts = cost is not None and wer["mel"]["wer"] <= FLOORS["mel_wer_at_most"]
    return {
        **FLOORS,
        "coffee_holds": None if coffee is None else coffee["exact"]["rate"] >= FLOORS["coffee_from_units"],
        "wer_cost_holds": cost["points"] <= FLOORS["wer_cost_points"] if counts else None,
    }
