"""``voiceid users``: who is enrolled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import Device, Microphone, Name, Yes, check_source, confirm, read_all
from voiceid.cli.context import Context, command_app, context_of
from voiceid.cli.enroll import Files
from voiceid.cli.guided import check_storing, collect, enrol_remotely, enrolled, finish, start_session
from voiceid.cli.loading import all_templates, open_vault, warn
from voiceid.cli.output import plain, stderr
from voiceid.cli.remote import daemon
from voiceid.errors import VaultError
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from voiceid.enrolment.vault import Vault
    from voiceid.service.client import Client

app = command_app("List, show, delete and re-enrol users.")


@app.command("list")
def list_users(ctx: typer.Context) -> None:
    """List the enrolled users."""
    context = context_of(ctx)
    with daemon(context) as client:
        users = client.call("users.list")["users"] if client else _local_users(context)
    table = Table("name", "enrolled", "utterances", "speech (s)", "model", "credentials", box=None)
    for user in users:
        table.add_row(
            Text(user["name"]),
            show_moment(user["created"]),
            str(user["utterance_count"]),
            f"{user['net_speech']:.1f}",
            user["model_name"],
            str(user["credential_count"]),
        )
    context.emit(users, table if users else Text("nobody is enrolled"))


@app.command()
def show(ctx: typer.Context, name: Name) -> None:
    """Show what is stored of user NAME (no audio is, and the template is not shown).

    With ``--json`` as in [bold]users list[/], and the credentials as in [bold]credentials list[/].
    """
    context = context_of(ctx)
    with daemon(context) as client:
        shown = client.call("users.show", user=name) if client else _local_user(context, name)
    user, credentials = shown["user"], shown["credentials"]
    table = Table.grid(padding=(0, 2))
    for key, value in {**user, "created": show_moment(user["created"])}.items():
        table.add_row(key.replace("_", " "), Text(str(value)))
    context.emit({**user, "credentials": credentials}, table, _credential_lines(credentials))


@app.command()
def delete(ctx: typer.Context, name: Name, yes: Yes = False) -> None:
    """Delete user NAME: template, credentials, counters and lock-out state, and report what was removed."""
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            stderr().print(_remote_credentials_or_damage(client, name), soft_wrap=True)
            confirm(f"Delete {name!r} for good?", yes)
            report = client.call("users.delete", user=name)["report"]
        else:
            vault = open_vault(context.settings())
            stderr().print(_credentials_or_damage(vault, name), soft_wrap=True)
            confirm(f"Delete {name!r} for good?", yes)
            report = plain(vault.delete_user(name).facts())
    removed = (
        f"{len(report['credentials'])} credentials, {report['counters']} counters, {report['files']} files in all"
        f"{', some of them damaged' if report['unreadable'] else ''}"
    )
    context.emit(report, Text(f"deleted {report['name']}: {removed}"))


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
    with daemon(context) as client:
        if client is not None:
            credentials = client.call("credentials.list", user=name)["credentials"]
            stderr().print(_credential_lines(credentials), soft_wrap=True)
            confirm(f"Enrol {name!r} anew and lose {len(credentials)} credentials?", yes)
            made = enrol_remotely(client, context, name, files or [], microphone, device, replace=True)
            context.emit({"name": made["user"], "enrolled": True, **made}, enrolled(made))
            return
    settings = context.settings()
    check_source(files or [], microphone, device)
    recordings = read_all(files or [])
    vault = open_vault(settings)
    check_storing(vault)
    former, credentials = vault.load_template(name), [plain(c.facts(name)) for c in vault.credentials(name)]
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
            "ended_credentials": [credential.facts(former.name) for credential in ended],
            "similar": result.similar,
            "utterances": utterances,
        },
        Text.assemble(("enrolled anew", "bold green"), f"  {former.name}; {len(ended)} credentials ended"),
    )


def _local_users(context: Context) -> list[dict[str, Any]]:
    vault = open_vault(context.settings())
    for problem in vault.problems():
        warn(problem)
    return [plain(user) for user in vault.list_users()]


def _local_user(context: Context, name: str) -> dict[str, Any]:
    vault = open_vault(context.settings())
    user = vault.show_user(name)
    return {"user": plain(user), "credentials": [plain(c.facts(user.name)) for c in vault.credentials(name)]}


def _credentials_or_damage(vault: Vault, name: str) -> Text:
    try:
        return _credential_lines([plain(credential.facts(name)) for credential in vault.credentials(name)])
    except VaultError as problem:
        return Text(f"warning: {problem}")


def _remote_credentials_or_damage(client: Client, name: str) -> Text:
    from voiceid.service.client import RemoteError
    from voiceid.service.schema import Fault

    try:
        return _credential_lines(client.call("credentials.list", user=name)["credentials"])
    except RemoteError as problem:
        if problem.fault is not Fault.VAULT:
            raise
        return Text(f"warning: {problem}")


def _credential_lines(credentials: list[dict[str, Any]]) -> Text:
    lines = (f"  {c['relying_party']}  {show_moment(c['created'])}  {c['credential_id'][:24]}..." for c in credentials)
    return Text("\n".join(["credentials:", *lines]) if credentials else "no credentials")
