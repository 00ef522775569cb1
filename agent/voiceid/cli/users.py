"""``voiceid users``: who is enrolled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import Device, Microphone, Name, Yes, check_source, confirm, encode_bytes, read_all
from voiceid.cli.context import command_app, context_of
from voiceid.cli.enroll import Files
from voiceid.cli.guided import check_storing, collect, finish, start_session
from voiceid.cli.loading import all_templates, open_vault, warn
from voiceid.cli.output import plain, stderr
from voiceid.errors import VaultError
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from voiceid.credentials.credential import Credential
    from voiceid.enrolment.vault import Vault

app = command_app("List, show, delete and re-enrol users.")


@app.command("list")
def list_users(ctx: typer.Context) -> None:
    """List the enrolled users."""
    context = context_of(ctx)
    vault = open_vault(context.settings())
    for problem in vault.problems():
        warn(problem)
    users = vault.list_users()
    table = Table("name", "enrolled", "utterances", "speech (s)", "model", "credentials", box=None)
    for user in users:
        table.add_row(
            Text(user.name),
            show_moment(user.created),
            str(user.utterance_count),
            f"{user.net_speech:.1f}",
            user.model_name,
            str(user.credential_count),
        )
    context.emit(users, table if users else Text("nobody is enrolled"))


@app.command()
def show(ctx: typer.Context, name: Name) -> None:
    """Show what is stored of user NAME (no audio is, and the template is not shown)."""
    context = context_of(ctx)
    vault = open_vault(context.settings())
    template, credentials = vault.load_template(name), vault.credentials(name)
    facts = {
        "name": template.name,
        "enrolled": show_moment(template.created),
        "utterance_count": template.utterance_count,
        "net_speech": template.net_speech,
        "model_name": template.model_name,
        "model_sha256": template.model_sha256,
        "owner_uid": template.owner_uid,
    }
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), Text(str(value)))
    context.emit({**facts, "credentials": [_summary(c) for c in credentials]}, table, _credential_lines(credentials))


@app.command()
def delete(ctx: typer.Context, name: Name, yes: Yes = False) -> None:
    """Delete user NAME: template, credentials, counters and lock-out state, and report what was removed."""
    context = context_of(ctx)
    vault = open_vault(context.settings())
    stderr().print(_credentials_or_damage(vault, name), soft_wrap=True)
    confirm(f"Delete {name!r} for good?", yes)
    report = vault.delete_user(name)
    removed = (
        f"{len(report.credentials)} credentials, {report.counters} counters, {report.files} files in all"
        f"{', some of them damaged' if report.unreadable else ''}"
    )
    facts = {**plain(report), "credentials": [_summary(credential) for credential in report.credentials]}
    context.emit(facts, Text(f"deleted {report.name}: {removed}"))


@app.command()
def reenroll(
    ctx: typer.Context,
    name: Name,
    files: Files = None,
    microphone: Microphone = False,
    device: Device = None,
    yes: Yes = False,
) -> None:
    """Enrol user NAME anew. This ends all credentials: they are listed first, and you are asked.

    The old enrolment stays until the new one is complete.

    Example:

    voiceid users reenroll ada new-1.wav new-2.wav new-3.wav --yes
    """
    context = context_of(ctx)
    settings = context.settings()
    check_source(files or [], microphone, device)
    recordings = read_all(files or [])
    vault = open_vault(settings)
    check_storing(vault)
    former, credentials = vault.load_template(name), vault.credentials(name)
    stderr().print(_credential_lines(credentials), soft_wrap=True)
    confirm(f"Enrol {name!r} anew and lose {len(credentials)} credentials?", yes)
    session = start_session(settings, [t for t in all_templates(vault) if t.user_id != former.user_id])
    utterances = collect(session, recordings, device)
    result = finish(session, former.name, utterances, context)
    ended = vault.save_template(replace(result.template, user_id=former.user_id), replace=True)
    context.emit(
        {
            "name": former.name,
            "enrolled": True,
            "ended_credentials": [_summary(c) for c in ended],
            "similar": result.similar,
            "utterances": utterances,
        },
        Text.assemble(("enrolled anew", "bold green"), f"  {former.name}; {len(ended)} credentials ended"),
    )


def _summary(credential: Credential) -> dict[str, str]:
    return {
        "relying_party": credential.rp_id,
        "credential_id": encode_bytes(credential.credential_id),
        "created": show_moment(credential.created),
    }


def _credentials_or_damage(vault: Vault, name: str) -> Text:
    try:
        return _credential_lines(vault.credentials(name))
    except VaultError as problem:
        return Text(f"warning: {problem}")


def _credential_lines(credentials: tuple[Credential, ...]) -> Text:
    lines = (f"  {c.rp_id}  {show_moment(c.created)}  {encode_bytes(c.credential_id)[:24]}..." for c in credentials)
    return Text("\n".join(["credentials:", *lines]) if credentials else "no credentials")
