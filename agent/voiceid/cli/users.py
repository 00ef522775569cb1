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
    """Show what is stored of user NAME (no audio is, and the template is not shown)."""
    context = context_of(ctx)
    with daemon(context) as client:
        shown = client.call("users.show", user=name) if client else _local_user(context, name)
    user, credentials = shown["user"], [_summary(credential) for credential in shown["credentials"]]
    facts = {
        "name": user["name"],
        "enrolled": show_moment(user["created"]),
        **{key: user[key] for key in ("utterance_count", "net_speech", "model_name", "model_sha256", "owner_uid")},
    }
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), Text(str(value)))
    context.emit({**facts, "credentials": credentials}, table, _credential_lines(credentials))


@app.command()
def delete(ctx: typer.Context, name: Name, yes: Yes = False) -> None:
    """Delete user NAME: template, credentials, counters and lock-out state, and report what was removed."""
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            credentials = client.call("credentials.list", user=name)["credentials"]
            stderr().print(_credential_lines([_summary(c) for c in credentials]), soft_wrap=True)
            confirm(f"Delete {name!r} for good?", yes)
            report = client.call("users.delete", user=name)["report"]
        else:
            vault = open_vault(context.settings())
            stderr().print(_credentials_or_damage(vault, name), soft_wrap=True)
            confirm(f"Delete {name!r} for good?", yes)
            report = plain(vault.delete_user(name))
    removed = (
        f"{len(report['credentials'])} credentials, {report['counters']} counters, {report['files']} files in all"
        f"{', some of them damaged' if report['unreadable'] else ''}"
    )
    facts = {**report, "credentials": [_summary(credential) for credential in report["credentials"]]}
    context.emit(facts, Text(f"deleted {report['name']}: {removed}"))


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
            credentials = [_summary(c) for c in client.call("credentials.list", user=name)["credentials"]]
            stderr().print(_credential_lines(credentials), soft_wrap=True)
            confirm(f"Enrol {name!r} anew and lose {len(credentials)} credentials?", yes)
            made = enrol_remotely(client, name, files or [], microphone, device, replace=True)
            made["ended_credentials"] = [_summary(credential) for credential in made["ended_credentials"]]
            context.emit({"name": made["user"], "enrolled": True, **made}, enrolled(made))
            return
    settings = context.settings()
    check_source(files or [], microphone, device)
    recordings = read_all(files or [])
    vault = open_vault(settings)
    check_storing(vault)
    former, credentials = vault.load_template(name), [_summary(plain(c)) for c in vault.credentials(name)]
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
            "ended_credentials": [_summary(plain(c)) for c in ended],
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
    template = vault.load_template(name)
    return {"user": template.facts(), "credentials": [plain(c) for c in vault.credentials(name)]}


def _summary(credential: dict[str, Any]) -> dict[str, str]:
    """What is shown of a credential, as the vault or the daemon tells it."""
    return {
        "relying_party": credential.get("relying_party") or credential["rp_id"],
        "credential_id": credential["credential_id"],
        "created": show_moment(credential["created"]),
    }


def _credentials_or_damage(vault: Vault, name: str) -> Text:
    try:
        return _credential_lines([_summary(plain(credential)) for credential in vault.credentials(name)])
    except VaultError as problem:
        return Text(f"warning: {problem}")


def _credential_lines(credentials: list[dict[str, str]]) -> Text:
    lines = (f"  {c['relying_party']}  {c['created']}  {c['credential_id'][:24]}..." for c in credentials)
    return Text("\n".join(["credentials:", *lines]) if credentials else "no credentials")
