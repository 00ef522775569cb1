"""``voiceid identify``: who of the enrolled is speaking, if anybody."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import AudioFile, Device, Microphone, audio_source
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import all_templates, load_pipeline, open_vault
from voiceid.cli.output import progress

app = command_app()


@app.command()
def identify(
    ctx: typer.Context, file: AudioFile = None, microphone: Microphone = False, device: Device = None
) -> ExitCode:
    """Find out which enrolled user is speaking, or that it is [bold]unknown[/].

    The set is open: the best match must pass every check, and a stricter identity threshold the more users there are.
    Where two users pass and score about the same, as with the same voice enrolled twice, both are named and none is
    chosen: use [bold]voiceid verify NAME[/] then. Exit code 0 only for a known speaker; 10 for unknown or ambiguous.

    Examples:

    voiceid identify command.wav

    voiceid identify --microphone --json
    """
    context = context_of(ctx)
    settings = context.settings(device=device)
    listen = audio_source(file, microphone, settings.capture)
    templates = all_templates(open_vault(settings))
    pipeline = load_pipeline(settings)
    waveform = listen()
    with progress("judging"):
        result = pipeline.identify(waveform, templates)
    table = Table("candidate", "identity (llr)", box=None) if result.candidates else Text("")
    for name, llr in result.candidates[:5]:
        if isinstance(table, Table):
            table.add_row(Text(name), f"{llr:+.2f}")
    candidates = [{"name": name, "llr": llr} for name, llr in result.candidates]
    context.emit(
        {
            **decision_json(result.decision, name=result.name, candidates=candidates, ambiguous=result.ambiguous),
            "user": result.name,
        },
        headline(result.decision, result.name or (_unknown(result.ambiguous) if templates else "nobody")),
        reasons(result.decision),
        table,
    )
    return code_of_outcome(result.decision.outcome)


def _unknown(ambiguous: tuple[str, ...]) -> str:
    return f"ambiguous: {' or '.join(ambiguous)}; name one with 'voiceid verify'" if ambiguous else "unknown"
