"""``voiceid understand``: units as a command of a grammar, or as free text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from voiceid.cli.context import command_app, context_of
from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.output import progress
from voiceid.errors import EnvelopeError
from voiceid.tables import unique_keys

if TYPE_CHECKING:
    from voiceid.units.packing import UnitSequence

MAX_UNITS = 1 << 20
"""Bytes of a file of units."""

_NEITHER = "neither an envelope nor JSON of 'voiceid units --json'"

app = command_app()


@app.command()
def understand(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="ENVELOPE_OR_UNITS", help="An envelope, or JSON of 'voiceid units --json'."),
    ],
    grammar: Annotated[
        str | None,
        typer.Option(help="A shipped grammar's name or a file of your own (.toml); without it: free text."),
    ] = None,
    model: Annotated[str, typer.Option(metavar="CARD", help="The recogniser: a card's name or path.")] = "words",
    point: Annotated[
        Literal["convenience", "balanced", "strict"], typer.Option(help="How sure it must be of a command.")
    ] = "balanced",
) -> ExitCode:
    """Turn the units of ENVELOPE_OR_UNITS into words, as a service provider does: no audio is needed.

    With [bold]--grammar[/] (coffee, lights, timers, banking, or a file of your own) the answer is an intent with its
    slots and a confidence, or exit code 17: not understood. This reads an envelope without checking its signature;
    a service checks it first, with [bold]voiceid.relying_party.verify[/].

    Example:

    voiceid units order.wav --json > order.json; voiceid understand order.json --grammar coffee --json
    """
    context = context_of(ctx)
    units, codebook_hash = read_units(file)
    with progress("understanding"):
        from voiceid.understanding.decoder import Decoder
        from voiceid.understanding.grammar import load_grammar
        from voiceid.understanding.language import LanguageModel, transcribe
        from voiceid.understanding.recogniser import load_recogniser
        from voiceid.understanding.understand import understand

        decoder = None if grammar is None else Decoder(load_grammar(grammar))
        recogniser = load_recogniser(model)
        least = recogniser.card.threshold(point)
        posteriors = recogniser.posteriors(units, codebook_hash)
        if decoder is None:
            language = None if recogniser.language is None else LanguageModel.read(recogniser.language)
            text = transcribe(posteriors, language)
            context.emit({"text": text}, Text(text))
            return ExitCode.ACCEPTED
        found = understand(posteriors, decoder, recogniser.calibration, least)
    if not found.understood:
        nearest = f"; nearest: {found.guess!r}" if found.guess else ""
        context.emit(found, Text(f"not understood (confidence {found.confidence:.2f}, least {least:.2f}{nearest})"))
        return ExitCode.NOT_UNDERSTOOD
    slots = "".join(f"\n  {name}: {value}" for name, value in found.slots.items())
    context.emit(found, Text(f"{found.intent} (confidence {found.confidence:.2f}): {found.text!r}{slots}"))
    return ExitCode.ACCEPTED


def read_units(file: Path) -> tuple[UnitSequence, bytes]:
    """The units in ``file``, an envelope or the JSON of ``voiceid units --json``, and their codebook's hash.

    Raises:
        EnvelopeError: it is neither, or an envelope without speech.
        OSError: it cannot be read.
    """
    from voiceid.credentials.envelope import Envelope
    from voiceid.file_kind import FileKind, kind_of
    from voiceid.regular_file import read_regular
    from voiceid.units.packing import UnitSequence, pack

    data = read_regular(file, MAX_UNITS)
    kind = kind_of(data)
    if kind is FileKind.RECORDING:
        raise EnvelopeError(f"{file}: audio; make units of it first, with 'voiceid units --json'")
    if kind not in (None, FileKind.ENVELOPE, FileKind.UNITS):
        raise EnvelopeError(f"{file}: {_NEITHER}; this is {kind}")
    if not data.lstrip().startswith(b"{"):
        try:
            speech = Envelope.from_bytes(data).contents.units
        except EnvelopeError as error:
            raise EnvelopeError(f"{file}: {error}") from None
        if speech is None:
            raise EnvelopeError(f"{file}: an envelope without speech; ask for one with units")
        return speech.sequence(), speech.codebook_hash
    try:
        table: dict[str, Any] = json.loads(data, object_pairs_hook=unique_keys)
        sequence = UnitSequence(table["codebook"], tuple(table["merged"]), merged=True)
        pack(sequence)  # checks it
        return sequence, bytes.fromhex(table["codebook_hash"])
    except KeyError as error:
        raise EnvelopeError(f"{file}: {_NEITHER}: it has no {error.args[0]!r}") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise EnvelopeError(f"{file}: {_NEITHER}: its JSON or a value in it is malformed") from None
