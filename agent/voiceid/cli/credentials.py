"""``voiceid credentials``: keys for relying parties, derived only after an accepted decision."""

from __future__ import annotations

import json
import re
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
    read_source,
)
from voiceid.cli.context import Context, command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import load_pipeline, open_vault, open_vault_and_key, warn
from voiceid.cli.output import plain, progress
from voiceid.cli.output_path import check_output
from voiceid.cli.remote import daemon, emit_answer, hand_over, hear, refuse_device
from voiceid.errors import CredentialError
from voiceid.output_file import write_file
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from voiceid.credentials.authenticator import Registered
    from voiceid.service.client import Client

app = command_app("List, register and revoke a user's credentials.")

SHORTEST_ID = 32
"""Characters; credential ids have more, options fewer."""


SHORTEST_PREFIX = 6
_BASE64 = re.compile(r"[A-Za-z0-9_-]+")


class HyphenatedId(TyperCommand):
    """Takes a credential id for an argument even where it begins with a hyphen, as one in 64 does in base64url."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" not in args:
            identifiers = [a for a in args if a.startswith("-") and len(a) >= SHORTEST_ID]
            args = [a for a in args if a not in identifiers] + ["--", *identifiers]
        return super().parse_args(ctx, args)


@app.command("list")
def list_credentials(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="User name; default: everybody.", show_default=False)
    ] = None,
) -> None:
    """List the credentials of user NAME, or of everybody; those that cannot be read are warned of."""
    context = context_of(ctx)
    with daemon(context) as client:
        found = client.call("credentials.list", user=name) if client else _local_list(context, name)
    for user, count in found.get("damaged", {}).items():
        advice = f"'voiceid credentials revoke {user} --damaged' removes them"
        warn(f"{count} credentials of {user!r} cannot be read; {advice}")
    rows = found["credentials"]
    table = Table("user", "relying party", "since", Column("credential id", overflow="fold"), box=None)
    for row in rows:
        table.add_row(Text(row["user"]), row["relying_party"], show_moment(row["created"]), row["credential_id"])
    context.emit(rows, table if rows else Text("no credentials"))


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
    another: Annotated[
        bool, typer.Option("--another", help="Add a credential where NAME has one at the relying party already.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the --output FILE if it is there.")] = False,
) -> ExitCode:
    """Register user NAME at a relying party: verify the voice, derive a key and write the WebAuthn registration.

    The registration (JSON) goes to the relying party, which checks it with any WebAuthn library. With --another the
    new credential is the one that [bold]voiceid authenticate[/] uses from then on, and the relying party has to be
    given its registration: the former one does not check those envelopes. The old credentials stay for
    [bold]voiceid authenticate --credential[/].

    Example:

    voiceid credentials register ada command.wav --relying-party shop.example.org --challenge 3q2-7w... -o ada.json
    """
    context = context_of(ctx)
    nonce = decode_bytes(challenge, "--challenge", least=MIN_CHALLENGE)
    handle = None if user_handle is None else decode_bytes(user_handle, "--user-handle")
    if output is not None:
        check_output(output, context, recording=file)
        if output.is_file() and not overwrite:
            raise typer.BadParameter(f"{output} exists already; --overwrite replaces it")
    with daemon(context, counting=True) as client:
        if client is not None:
            refuse_device(device)
            if not another:
                _refuse_another(client.call("credentials.list", user=name)["credentials"], name, relying_party)
            audio = hand_over(client, read_source(file, microphone))
            asked = {"user": name, "relying_party": relying_party, "challenge": nonce, "user_handle": handle}
            result = client.call("credentials.register", hear, **asked, audio=audio)
            code = _registered_remotely(client, context, name, result, output)
            if another and code is ExitCode.ACCEPTED:
                _warn_of_former(name, relying_party)
            return code
    settings = context.settings(device=device)
    listen = audio_source(file, microphone, settings.capture)
    vault, key = open_vault_and_key(settings)
    from voiceid.credentials.authenticator import Authenticator

    authenticator = Authenticator(vault, key)
    authenticator.check_registration(name, rp_id=relying_party, challenge=nonce, user_handle=handle)
    if not another:
        _refuse_another([plain(c.facts(name)) for c in vault.credentials(name)], name, relying_party)
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
    if another:
        _warn_of_former(name, relying_party)
    return ExitCode.ACCEPTED


@app.command(cls=HyphenatedId)
def revoke(
    ctx: typer.Context,
    name: Name,
    credential_id: Annotated[
        str | None, typer.Argument(metavar="CREDENTIAL", help="Credential id, as listed.", show_default=False)
    ] = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="All that cannot be read, instead of one.")] = False,
    yes: Yes = False,
) -> None:
    """Revoke a credential of user NAME: it can never sign again. Tell the relying party, too.

    The first six or more characters of the credential id will do, where no other credential of NAME begins with them.
    """
    context = context_of(ctx)
    if (credential_id is not None) == damaged:
        raise typer.BadParameter("give either a CREDENTIAL or --damaged")
    if credential_id is None:
        _revoke_damaged(context, name, yes)
        return
    with daemon(context) as client:
        if client is not None:
            found = _find(client.call("credentials.list", user=name)["credentials"], name, credential_id)
            confirm(_question(found), yes)
            identifier = decode_bytes(found["credential_id"], "CREDENTIAL")
            facts = client.call("credentials.revoke", user=name, credential_id=identifier)["credential"]
        else:
            vault = open_vault(context.settings())
            found = _find([plain(c.facts(name)) for c in vault.credentials(name)], name, credential_id)
            confirm(_question(found), yes)
            identifier = decode_bytes(found["credential_id"], "CREDENTIAL")
            facts = plain(vault.delete_credential(name, identifier).facts(name))
    context.emit(facts, Text(f"revoked a credential of {name} at {facts['relying_party']}"))


def _refuse_another(credentials: list[dict[str, Any]], name: str, relying_party: str) -> None:
    """Insist on no credential of ``name`` at ``relying_party`` among ``credentials``.

    Raises:
        CredentialError: there is one.
    """
    there = [credential for credential in credentials if credential["relying_party"] == relying_party]
    if there:
        shown = ", ".join(f"{c['credential_id'][:24]}... since {show_moment(c['created'])}" for c in there)
        raise CredentialError(
            f"{name!r} is registered at {relying_party} already ({shown}); --another adds a credential, and "
            f"'voiceid credentials revoke {name} ID' ends one"
        )


def _warn_of_former(name: str, relying_party: str) -> None:
    """Say what a new credential means for a registration that the relying party has already."""
    warn(
        f"envelopes for {relying_party} are signed with this credential from now on: give the service this "
        f"registration; a former one of {name!r} does not check them"
    )


def _find(credentials: list[dict[str, Any]], name: str, wanted: str) -> dict[str, Any]:
    """The one of ``credentials`` whose id begins with ``wanted``.

    Raises:
        BadParameter: too short, or no base64.
        CredentialError: there is none, or more than one.
    """
    start = wanted.strip().rstrip("=").replace("+", "-").replace("/", "_")
    if len(start) < SHORTEST_PREFIX or not _BASE64.fullmatch(start):
        raise typer.BadParameter(
            f"CREDENTIAL {wanted[:40]!r} is no credential id, nor {SHORTEST_PREFIX} or more of its first characters"
        )
    found = [credential for credential in credentials if credential["credential_id"].startswith(start)]
    if not found:
        raise CredentialError(
            f"{name!r} has no credential {start[:24]!r}; 'voiceid credentials list {name}' shows what there is"
        )
    if len(found) > 1:
        raise CredentialError(f"{len(found)} credentials of {name!r} begin with {start!r}; give more characters")
    return found[0]


def _question(credential: dict[str, Any]) -> str:
    since = show_moment(credential["created"])
    shown = f"{credential['credential_id'][:24]}... of {credential['user']!r}"
    return f"Revoke {shown} at {credential['relying_party']} (since {since}) for good?"


def _revoke_damaged(context: Context, name: str, yes: bool) -> None:
    question = f"Remove every credential of {name!r} that cannot be read?"
    with daemon(context) as client:
        if client is not None:
            confirm(question, yes)
            removed = client.call("credentials.revoke_damaged", user=name)["removed"]
        else:
            vault = open_vault(context.settings())
            vault.load_template(name)
            confirm(question, yes)
            removed = vault.delete_damaged_credentials(name)
    context.emit({"name": name, "removed": removed}, Text(f"removed {removed} damaged credentials of {name}"))


def _local_list(context: Context, name: str | None) -> dict[str, Any]:
    vault = open_vault(context.settings())
    names = [name] if name else [user.name for user in vault.list_users()]
    damaged = {user: count for user in names if (count := vault.damaged_credentials(user))}
    rows = [plain(credential.facts(user)) for user in names for credential in vault.credentials(user)]
    return {"credentials": rows, "damaged": damaged}


def _registered_remotely(
    client: Client, context: Context, name: str, result: dict[str, Any], output: Path | None
) -> ExitCode:
    if "registration" not in result:
        return emit_answer(context, result, name)
    credential, text = result["credential"], json.dumps(result["registration"], indent=2)
    written = f"registered {name} at {credential['relying_party']}: {output}" if output else text
    facts = {**credential, "registration": result["registration"], "output": output}
    try:
        if output is not None:
            write_file(output, text.encode() + b"\n")
        context.emit(facts, Text(written))
    except (OSError, SystemExit):  # nobody will ever know of it; Rich ends the process at a closed pipe
        identifier = decode_bytes(credential["credential_id"], "credential")
        client.call("credentials.revoke", user=name, credential_id=identifier)
        raise
    return ExitCode.ACCEPTED


def _registration(user: str, registered: Registered, output: Path | None) -> dict[str, object]:
    return {**registered.credential.facts(user), "registration": registered.response, "output": output}
