"""The words report on the terminal and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.evaluation.report import interval, percent, table

SYSTEMS = {"units": "units", "mel": "mel, same network", "whisper": "Whisper tiny.en on audio"}


def word_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Word error rates by system."""
    return [
        [
            SYSTEMS[name],
            percent(part["wer"]),
            interval(part["ci95"]),
            str(part["words"]),
            str(part["utterances"]),
            str(part["speakers"]),
        ]
        for name, part in result["wer"].items()
        if name in SYSTEMS
    ]


def command_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Commands by grammar and system."""
    return [
        [
            group,
            SYSTEMS[system],
            percent(part["exact"]["rate"]),
            interval(part["exact"]["ci95"]),
            percent(part["intent"]["rate"]),
            percent(part["all_slots"]["rate"]),
            percent(part["not_understood"]["rate"]),
            percent(part["forced_exact"]["rate"]),
            str(part["n"]),
        ]
        for group, systems in result["intents"].items()
        for system, part in systems.items()
    ]


WORD_HEADERS = ("heard", "WER", "95 % interval", "words", "utterances", "speakers")
COMMAND_HEADERS = (
    "commands", "heard", "all right", "95 % interval", "intent right", "slots right", "not understood",
    "all right, forced", "n",
)  # fmt: skip


def describe(result: Mapping[str, Any]) -> str:
    """Both tables, other speech taken for commands, and the floors."""
    tables = [table(WORD_HEADERS, word_rows(result)), table(COMMAND_HEADERS, command_rows(result))]
    return "\n\n".join(tables + _sentences(result))


def page(result: Mapping[str, Any]) -> str:
    """The page ``docs/words.md``."""
    parts = [
        INTRODUCTION,
        f"## Measures\n\nOf the recogniser: {result['recogniser']}\n",
        "### Word error rates\n",
        _markdown(WORD_HEADERS, word_rows(result)),
        READ,
    ]
    parts += ["### Commands\n", _markdown(COMMAND_HEADERS, command_rows(result)), COMMANDS]
    for group, systems in result["intents"].items():
        if "units" in systems:
            rows = [
                [name, *(percent(part["slots"][name]["rate"]) for part in systems.values()),
                 str(systems["units"]["slots"][name]["n"])]
                for name in systems["units"]["slots"]
            ]  # fmt: skip
            parts += [f"#### Slots: {group}\n", _markdown(("slot", *(SYSTEMS[s] for s in systems), "n"), rows)]
    parts += ["### In short\n", *(f"{sentence}\n" for sentence in _sentences(result)), HOW]
    return "\n".join(parts) + "\n"


def _sentences(result: Mapping[str, Any]) -> list[str]:
    found = []
    if cost := result["wer"].get("cost"):
        low, high = cost["ci95"]
        found.append(
            f"Units cost {cost['points']:+.1f} points of word error rate beside mel ({low:+.1f} to {high:+.1f})."
        )
    for system, part in result["false_commands"].items():
        found.append(
            f"{SYSTEMS[system]}: {percent(part['rate'])} of {part['n']} trials of read sentences against a grammar "
            f"pass for a command ({interval(part['ci95'])})."
        )
    floors = result["floors"]
    words = {True: "holds", False: "is missed", None: "does not count or was not measured"}
    found.append(
        f"Floor of {floors['coffee_from_units']:.0%} of real coffee orders all right from units "
        f"(aim {floors['aim']:.0%}): {words[floors['coffee_holds']]}. Floor of {floors['wer_cost_points']:.0f} points "
        f"of word error rate, which counts where mel stays within {floors['mel_wer_at_most']:.0%}: "
        f"{words[floors['wer_cost_holds']]}."
    )
    return found


def _markdown(headers: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [list(headers), ["---"] * len(headers), *rows]]
    return "\n".join(lines) + "\n"


INTRODUCTION = """# From units to words

What a service provider can do with the units that an envelope carries: a recogniser (the card `words`, which
`make models` makes) turns units of the default profile (codebook of 100, runs merged, no durations) into letters, and
a decoder finds the command of a grammar that explains them best. Nothing here runs on the device.

    voiceid units order.wav --json > order.json
    voiceid understand order.json --grammar coffee --json

or, in Python, after `voiceid.relying_party.verify` has checked an envelope:

```python
from voiceid.understanding.decoder import Decoder
from voiceid.understanding.grammar import load_grammar
from voiceid.understanding.recogniser import load_recogniser
from voiceid.understanding.understand import understand

recogniser = load_recogniser()
posteriors = recogniser.posteriors(verified.units, verified.codebook_hash)
order = understand(
    posteriors, Decoder(load_grammar("coffee")), recogniser.calibration, recogniser.card.threshold("balanced")
)
```

Units of another codebook raise `CodebookError`: a recogniser belongs to one codebook, by its hash. `understood` is
false where nothing in the grammar explains the units well enough; the card's thresholds were set on development speech.

## Grammars

A grammar is a TOML file with `[intents]` (patterns of sentences), `[slots]` and `[phrases]`; coffee, lights, timers and
banking ship in `agent/voiceid/understanding/grammars`. In a pattern, `[x]` may be left out, `(x | y)` is one of them,
`<name>` a phrase, `{name}` a slot, and `x & y & z` the parts in any order.

```toml
name = "doors"

[slots]
door = { front = ["front door"], garage = ["garage [door]"] }

[intents]
open = ["[please] open the {door}"]
lock = ["[please] (lock | close) the {door}"]
```

The decoder is a Viterbi search through the CTC trellis of the whole grammar: no free text is made and matched.
"""
READ = """
Sentences of LibriSpeech and VCTK speakers of the test split; free text by beam search with an n-gram of letters. The
intervals are bootstrapped over speakers.
"""
COMMANDS = """
*All right* is intent and every slot, no slot too many. *Forced* takes the best command however unsure: it compares
units and mel fairly, since the confidence was calibrated on units. The real orders are by over 50 people, unlabelled,
on their own devices (Picovoice's speech-to-intent benchmark, Apache-2.0), and none of them trained anything; their
intervals treat every recording as independent. The synthetic commands are by voices that never train, and say less
about people.
"""
HOW = """## How it was made

`python -m tools.train.recognizer.synthetic` has synthesizers say sentences of the grammars,
`tools.train.recognizer.data` prepares them with the transcribed training speech (other voices, rooms, noise, codecs),
`tools.train.recognizer.training` trains on units or on mel, `tools.train.recognizer.card` exports and calibrates, and
`tools/evaluate.py words` measures. `tools.train.recognizer.carry` carries a recogniser over to the units of another
model, to begin a training with.
"""
