"""``voiceid units``: speech as discrete units."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from voiceid.cli.context import command_app, context_of
from voiceid.cli.output import progress

app = command_app()


@app.command()
def units(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recording: WAV, FLAC or OGG.", show_default=False)],
    codebook: Annotated[Literal["50", "100", "200"], typer.Option(help="Number of different units.")] = "100",
) -> None:
    """Turn FILE into discrete units: what was said, with little of who said it.

    One number every 10 ms over the trimmed utterance. This is what a relying party is sent, packed by its profile.

    Example:

    voiceid units command.wav --codebook 50 --json
    """
    context = context_of(ctx)
    settings = context.settings()
    with progress("tokenising"):
        from voiceid.audio import prepare, read_waveform
        from voiceid.models.store import find_model
        from voiceid.units.tokenizer import Tokenizer

        utterance = prepare(read_waveform(file), settings.quality)
        tokenizer = Tokenizer(find_model(settings.models.units, "units"), threads=settings.models.threads)
        found = tokenizer.encode(utterance.samples, codebook=int(codebook))
    context.emit(
        {
            "codebook": int(codebook),
            "codebook_hash": tokenizer.codebook_hash(int(codebook)).hex(),
            "rate_hz": 100,
            "seconds": utterance.seconds,
            "units": found,
        },
        Text(" ".join(map(str, found.tolist()))),
    )
