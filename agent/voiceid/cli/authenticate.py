"""``voiceid authenticate``: an accepted decision as a signed envelope for a relying party."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voiceid.cli.arguments import (
    MIN_CHALLENGE,
    AudioFile,
    Challenge,
    Device,
    Microphone,
    Name,
    RelyingParty,
    audio_source,
    decode_bytes,
    read_source,
)
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons, scores
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import load_pipeline, open_vault_and_key
from voiceid.cli.output import plain, progress
from voiceid.cli.output_path import check_output
from voiceid.cli.remote import daemon, emit_answer, hand_over, hear, refuse_device
from voiceid.output_file import write_file

if TYPE_CHECKING:
    from voiceid.cli.context import Context
    from voiceid.service.client import Client
    from voiceid.types import Waveform

app = command_app()


@app.command()
def authenticate(
    ctx: typer.Context,
    name: Name,
    relying_party: RelyingParty,
    challenge: Challenge,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="ENVELOPE", help="Write the envelope here.", show_default=False)
    ],
    file: AudioFile = None,
    microphone: Microphone = False,
    device: Device = None,
    purpose: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is for; signed too.", show_default=False)
    ] = None,
    credential: Annotated[
        str | None,
        typer.Option(metavar="B64", help="Credential id; default: the newest at this party.", show_default=False),
    ] = None,
) -> ExitCode:
    """Verify user NAME and, only when accepted, write a signed envelope of speech units: no audio, no embedding.

    Audio from a file is signed as source [bold]file[/], which a relying party refuses unless it was told to allow it.
    Where a daemon runs and no [bold]--vault[/] is named, the daemon does it, and needs [bold]--purpose[/].

    Example:

    voiceid authenticate ada command.wav --relying-party shop.example.org --challenge 3q2-7w... -o order.envelope
    """
    context = context_of(ctx)
    nonce = decode_bytes(challenge, "--challenge", least=MIN_CHALLENGE)
    identifier = None if credential is None else decode_bytes(credential, "--credential")
    check_output(output, context, recording=file)
    with daemon(context, counting=True) as client:
        if client is not None:
            refuse_device(device)
            if purpose is None:
                raise typer.BadParameter("a daemon signs only for a purpose: give --purpose, or name a --vault")
            asked = {"user": name, "relying_party": relying_party, "nonce": nonce, "credential_id": identifier}
            return _ask(client, context, read_source(file, microphone), {**asked, "purpose": purpose}, output)
    settings = context.settings(device=device)
    listen = audio_source(file, microphone, settings.capture)
    vault, key = open_vault_and_key(settings)
    from voiceid.credentials.authenticator import Authenticator
    from voiceid.pipeline import AuthenticationRequest
    from voiceid.types import Source

    authenticator = Authenticator(vault, key)
    authenticator.check_request(name, rp_id=relying_party, nonce=nonce, credential_id=identifier, purpose=purpose)
    pipeline = load_pipeline(settings)
    request = AuthenticationRequest(name, relying_party, nonce, identifier, purpose)
    waveform = listen()
    with progress("judging"):
        result = pipeline.authenticate(waveform, vault, authenticator, request)
    decision, envelope = result.decision, result.envelope
    facts: dict[str, object] = {"name": name, "relying_party": relying_party, "output": None}
    written = ""
    if envelope is not None:
        data, contents = envelope.to_bytes(), envelope.contents
        write_file(output, data)
        facts |= {"output": output, "envelope_bytes": len(data), "source": contents.source, "counter": contents.counter}
        written = f"{output}: {len(data)} bytes, signed as source {contents.source.value}"
        written += " (refused by default)" if contents.source is Source.FILE else ""
    context.emit(
        decision_json(decision, **plain(facts)), headline(decision, name), reasons(decision), scores(decision), written
    )
    return code_of_outcome(decision.outcome)


def _ask(client: Client, context: Context, recordings: list[Waveform], asked: dict[str, Any], output: Path) -> ExitCode:
    audio = hand_over(client, recordings)
    result = client.call("authenticate", hear, **asked, audio=audio)
    facts: dict[str, object] = {"relying_party": asked["relying_party"], "output": None}
    written = ""
    if "envelope" in result:
        data = decode_bytes(result["envelope"], "envelope")
        write_file(output, data)
        facts |= {"output": str(output), "envelope_bytes": len(data), "source": result["source"]}
        written = f"{output}: {len(data)} bytes, signed as source {result['source']}"
    return emit_answer(context, result, asked["user"], written, **facts)
