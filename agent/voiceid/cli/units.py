"""``voiceid units``: speech as discrete units."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from voiceid.cli.arguments import read_recording
from voiceid.cli.context import command_app, context_of
from voiceid.cli.output import progress, stderr
from voiceid.cli.output_path import check_output
from voiceid.errors import NoSpeechError
from voiceid.output_file import write_file

if TYPE_CHECKING:
    from voiceid.settings import ModelSettings
    from voiceid.units.resynthesis import Resynthesizer

app = command_app()


@app.command()
def units(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recording: WAV, FLAC, OGG or MP3.", show_default=False)],
    codebook: Annotated[Literal["50", "100", "200"], typer.Option(help="Number of different units.")] = "100",
    resynthesize: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT",
            help="Write the units as speech in one fixed voice to OUT (.wav, .flac), from the --codebook of its model.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Take also what is no usable speech, as silence.")] = False,
) -> None:
    """Turn FILE into discrete units: what was said, with little of who said it.

    One number every 10 ms over the trimmed utterance. This is what a relying party is sent, packed by its profile.
    --resynthesize lets you hear what the units say: the words, in a voice and at a pitch that are always the same. It
    keeps the durations, which the default profile drops.

    What other commands call inconclusive (silent, too short, quiet, clipped or noisy) is refused with exit code 14.

    Example:

    voiceid units command.wav --codebook 50 --json
    """
    context = context_of(ctx)
    settings = context.settings()
    voice = None
    if resynthesize:
        from voiceid.audio.files import WRITABLE

        check_output(resynthesize, context, recording=file, suffixes=tuple(WRITABLE))
        voice = _voice(settings.models, int(codebook))
    with progress("tokenising"):
        from voiceid.audio import prepare
        from voiceid.audio.files import encode
        from voiceid.models.store import find_model
        from voiceid.scoring.policy import describe_faults
        from voiceid.units.packing import UnitSequence, bits_per_second, merge_runs
        from voiceid.units.tokenizer import Tokenizer

        utterance = prepare(read_recording(file), settings.quality)
        if not utterance.quality.usable and not force:
            faults = "; ".join(describe_faults(utterance.quality))
            raise NoSpeechError(f"{file}: no usable speech ({faults}); --force gives units all the same")
        tokenizer = Tokenizer(find_model(settings.models.units, "units"), threads=settings.models.threads)
        found = tokenizer.encode(utterance.samples, codebook=int(codebook))
        if resynthesize and voice:
            voice.check(tokenizer)
            write_file(resynthesize, encode(voice(found), resynthesize.suffix))
    merged, durations = merge_runs(found.tolist())
    rate = bits_per_second(UnitSequence(int(codebook), merged, merged=True), utterance.seconds)
    context.emit(
        {
            "codebook": int(codebook),
            "codebook_hash": tokenizer.codebook_hash(int(codebook)).hex(),
            "rate_hz": 100,
            "seconds": utterance.seconds,
            "units": found,
            "merged": merged,
            "durations": durations,
            "merged_bits_per_second": rate,
            "resynthesized": resynthesize,
        },
        Text(" ".join(map(str, found.tolist()))),
    )
    if not context.json:
        summary = f"{len(found)} units in {utterance.seconds:.1f} s; {len(merged)} with runs merged, {rate:.0f} bit/s"
        stderr().print(summary + (f"; resynthesized to {resynthesize}" if resynthesize else ""), style="dim")


def _voice(models: ModelSettings, codebook: int) -> Resynthesizer:
    from voiceid.models.store import find_model
    from voiceid.units.resynthesis import Resynthesizer

    voice = Resynthesizer(find_model(models.resynthesis, "resynthesis"), threads=models.threads)
    if voice.codebook != codebook:
        raise typer.BadParameter(
            f"--resynthesize speaks units of codebook {voice.codebook}, not {codebook}: give --codebook "
            f"{voice.codebook}, or choose a model for codebook {codebook} with [models] resynthesis"
        )
    return voice
