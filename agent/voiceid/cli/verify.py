"""``voiceid verify``: one user, one utterance, one decision."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from voiceid.cli.arguments import AudioFile, Device, Microphone, Name, audio_source, encode_bytes, read_source
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons, scores, timings
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import find_template, load_pipeline, open_vault
from voiceid.cli.output import progress
from voiceid.cli.remote import daemon, emit_answer, hand_over, hear, refuse_device
from voiceid.errors import ServiceError

if TYPE_CHECKING:
    from voiceid.cli.context import Context
    from voiceid.service.client import Client

app = command_app()


@app.command()
def verify(
    ctx: typer.Context, name: Name, file: AudioFile = None, microphone: Microphone = False, device: Device = None
) -> ExitCode:
    """Check whether an utterance is user NAME, speaking live, in one voice throughout.

    The exit code is the outcome: 0 accepted, 10 rejected, 11 spoof, 12 replay, 13 inconsistent, 14 inconclusive (try
    again), 15 not enrolled, 16 locked out. Where a daemon runs and no [bold]--vault[/] is named, the daemon listens
    and decides, and counts failures; only admins are told more than accepted, denied, try again or locked.

    The VoiceID score is the probability, fused from the judges' scores, that this is the enrolled person, live.

    Examples:

    voiceid verify ada command.wav

    voiceid verify ada --microphone --json
    """
    context = context_of(ctx)
    with daemon(context, counting=True) as client:
        if client is not None:
            return _ask(client, context, name, file, microphone, device)
    settings = context.settings(device=device)
    listen = audio_source(file, microphone, settings.capture)
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


def _ask(
    client: Client, context: Context, name: str, file: Path | None, microphone: bool, device: str | None
) -> ExitCode:
    refuse_device(device)
    challenge = secrets.token_bytes(32)
    audio = hand_over(client, read_source(file, microphone))
    result = client.call("verify", hear, user=name, purpose="voiceid verify", challenge=challenge, audio=audio)
    if result["challenge"] != encode_bytes(challenge):
        raise ServiceError("the daemon answered another challenge than was asked; do not trust it")
    return emit_answer(context, result, name)
