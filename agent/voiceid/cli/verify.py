"""``voiceid verify``: one user, one utterance, one decision."""

from __future__ import annotations

import typer

from voiceid.cli.arguments import AudioFile, Device, Microphone, Name, audio_source
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons, scores, timings
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import find_template, load_pipeline, open_vault
from voiceid.cli.output import progress

app = command_app()


@app.command()
def verify(
    ctx: typer.Context, name: Name, file: AudioFile = None, microphone: Microphone = False, device: Device = None
) -> ExitCode:
    """Check whether an utterance is user NAME, speaking live, in one voice throughout.

    The exit code is the outcome: 0 accepted, 10 rejected, 11 spoof, 12 replay, 13 inconsistent, 14 inconclusive (try
    again), 15 not enrolled.

    Examples:

    voiceid verify ada command.wav

    voiceid verify ada --microphone --json
    """
    context = context_of(ctx)
    settings = context.settings()
    listen = audio_source(file, microphone, device)
    template = find_template(open_vault(settings), name)
    pipeline = load_pipeline(settings)
    waveform = listen()
    with progress("judging"):
        decision = pipeline.decide(waveform, template, name=name)
    context.emit(
        decision_json(decision, name=name),
        headline(decision, name),
        reasons(decision),
        scores(decision),
        timings(decision),
    )
    return code_of_outcome(decision.outcome)
