"""``voiceid credentials``: keys for relying parties, derived only after an accepted decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperCommand

from voiceid.cli.arguments import (
    MIN_CHALLENGE,
    AudioFile,
    Challenge,
    Device,
    Microphone,
    Name,
    RelyingParty,
    Yes,
    audio_source,
    confirm,
    decode_bytes,
    encode_bytes,
)
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import load_pipeline, open_vault, open_vault_and_key
from voiceid.cli.output import plain, progress
from voiceid.output_file import check_file, write_file

if TYPE_CHECKING:
    from voiceid.credentials.authenticator import Registered
    from voiceid.credentials.credential import Credential

app = command_app("List, register and revoke a user's credentials.")

SHORTEST_ID = 32
"""Characters; credential ids have more, options fewer."""


class HyphenatedId(TyperCommand):
    """Takes a credential id for an argument even where it begins with a hyphen, as one in 64 does in base64url."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" not in args:
            identifiers = [a for a in args if a.startswith("-") and len(a) >= SHORTEST_ID]
            args = [a for a in args if a not in identifiers] + ["--", *identifiers]
        return super().parse_args(ctx, args)


@app.command("list")
def list_credentials(
    ctx: typer.Context, name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None
) -> None:
    """List the credentials of user NAME, or of everybody."""
    context = context_of(ctx)
    vault = open_vault(context.settings())
    names = [name] if name else [user.name for user in vault.list_users()]
    found = [(user, credential) for user in names for credential in vault.credentials(user)]
    table = Table("user", "relying party", Column("credential id", overflow="fold"), box=None)
    for user, credential in found:
        table.add_row(Text(user), credential.rp_id, encode_bytes(credential.credential_id))
    rows = [_facts(user, credential) for user, credential in found]
    context.emit(rows, table if found else Text("no credentials"))


@app.command()
def register(
    ctx: typer.Context,
    name: Name,
    relying_party: RelyingParty,
    challenge: Challenge,
    file: AudioFile = None,
    microphone: Microphone = False,
    device: Device = None,
    user_handle: Annotated[
        str | None,
        typer.Option(metavar="B64", help="The user's handle at the service, if it chose one.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the registration here.", show_default=False),
    ] = None,
) -> ExitCode:
    """Register user NAME at a relying party: verify the voice, derive a key and write the WebAuthn registration.

    The registration (JSON) goes to the relying party, which checks it with any WebAuthn library.

    Example:

    voiceid credentials register ada command.wav --relying-party shop.example.org --challenge 3q2-7w... -o ada.json
    """
    context = context_of(ctx)
    settings = context.settings()
    listen = audio_source(file, microphone, device)
    nonce = decode_bytes(challenge, "--challenge", least=MIN_CHALLENGE)
    handle = None if user_handle is None else decode_bytes(user_handle, "--user-handle")
    if output is not None:
        check_file(output)
    vault, key = open_vault_and_key(settings)
    from voiceid.credentials.authenticator import Authenticator

    authenticator = Authenticator(vault, key)
    authenticator.check_registration(name, rp_id=relying_party, challenge=nonce, user_handle=handle)
    template = vault.load_template(name)
    pipeline = load_pipeline(settings)
    waveform = listen()
    with progress("judging"):
        decision = pipeline.decide(waveform, template)
    if not decision.accepted:
        context.emit(decision_json(decision, name=name), headline(decision, name), reasons(decision))
        return code_of_outcome(decision.outcome)

    def deliver(made: Registered) -> None:
        text = json.dumps(plain(made.response), indent=2)
        if output is None:
            context.emit(_registration(name, made, None), Text(text))
        else:
            write_file(output, text.encode() + b"\n")

    registered = authenticator.register(
        name, rp_id=relying_party, challenge=nonce, decision=decision, user_handle=handle, deliver=deliver
    )
    if output is not None:
        text = Text(f"registered {name} at {relying_party}: {output}")
        context.emit(_registration(name, registered, output), text)
    return ExitCode.ACCEPTED


@app.command(cls=HyphenatedId)
def revoke(
    ctx: typer.Context,
    name: Name,
    credential_id: Annotated[
        str, typer.Argument(metavar="CREDENTIAL", help="Credential id, as listed.", show_default=False)
    ],
    yes: Yes = False,
) -> None:
    """Revoke a credential of user NAME: it can never sign again. Tell the relying party, too."""
    context = context_of(ctx)
    vault = open_vault(context.settings())
    identifier = decode_bytes(credential_id, "CREDENTIAL")
    vault.load_template(name)
    confirm(f"Revoke {credential_id[:24]}... of {name!r} for good?", yes)
    credential = vault.delete_credential(name, identifier)
    context.emit(_facts(name, credential), Text(f"revoked a credential of {name} at {credential.rp_id}"))


def _registration(user: str, registered: Registered, output: Path | None) -> dict[str, object]:
    return {**_facts(user, registered.credential), "registration": registered.response, "output": output}


def _facts(user: str, credential: Credential) -> dict[str, object]:
    return {
        "user": user,
        "relying_party": credential.rp_id,
        "credential_id": credential.credential_id,
        "user_handle": credential.user_handle,
        "created": credential.created,
    }
