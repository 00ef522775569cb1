"""``voiceid users``: who is enrolled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import Device, Microphone, Name, Yes, check_source, confirm, read_all
from voiceid.cli.asking import secret
from voiceid.cli.context import Context, command_app, context_of
from voiceid.cli.enroll import Files
from voiceid.cli.guided import check_storing, collect, enrol_remotely, enrolled, finish, start_session
from voiceid.cli.loading import all_templates, identity_in_use, open_vault, relative_detectors, warn
from voiceid.cli.output import counted, plain, stderr
from voiceid.cli.remote import daemon
from voiceid.errors import EnrolmentError, VaultError
from voiceid.service.schema import Fault
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from voiceid.enrolment.vault import Vault
    from voiceid.service.client import Client

_NOBODY = "nobody is enrolled"
_UNVERIFIED = "Whoever speaks now can use all credentials of {0!r}. Renew without a check?"

app = command_app("List, show, delete, renew and re-enrol users.")


@app.command("list")
def list_users(ctx: typer.Context) -> None:
    """List the enrolled users."""
    context = context_of(ctx)
    with daemon(context) as client:
        users, nobody = (client.call("users.list")["users"], _NOBODY) if client else _local_users(context)
    table = Table("name", "enrolled", "utterances", "speech (s)", "model", "credentials", "", box=None)
    for user in users:
        table.add_row(
            Text(user["name"]),
            show_moment(user["created"]),
            str(user["utterance_count"]),
            f"{user['net_speech']:.1f}",
            user["model_name"],
            str(user["credential_count"]),
            Text("renew" if user["renew"] else "", style="bold yellow"),
        )
    context.emit(users, table if users else Text(nobody))


@app.command()
def show(ctx: typer.Context, name: Name) -> None:
    """Show what is stored of user NAME (no audio is, and the template is not shown).

    With --json as in [bold]users list[/], and the credentials as in [bold]credentials list[/].
    """
    context = context_of(ctx)
    with daemon(context) as client:
        shown = client.call("users.show", user=name) if client else _local_user(context, name)
    user, credentials = shown["user"], shown["credentials"]
    table = Table.grid(padding=(0, 2))
    for label, text in _readable(user).items():
        table.add_row(label, Text(text))
    if user["renew"]:
        warn(f"the identity model in use is none of these: 'voiceid users renew {user['name']}' keeps all credentials")
    if user["not_relative"]:
        warn(
            f"{' and '.join(user['not_relative'])} cannot judge relative to {user['name']!r}, whose enrolment was not "
            f"scored by the models in use: 'voiceid users renew {user['name']}' makes up for it"
        )
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
        f"{counted(len(report['credentials']), 'credential')}, {counted(report['counters'], 'counter')}, "
        f"{counted(report['files'], 'file')} in all"
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

    voiceid users reenroll ada new-1.wav new-2.wav new-3.wav
    """
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            credentials = client.call("credentials.list", user=name)["credentials"]
            _confirm_loss(name, credentials, yes)
            made = enrol_remotely(client, context, name, files or [], microphone, device, replace=True)
            context.emit({"name": made["user"], "enrolled": True, **made}, enrolled(made))
            return
    settings = context.settings(device=device)
    check_source(files or [], microphone, settings.capture)
    recordings = read_all(files or [])
    vault = open_vault(settings)
    check_storing(vault)
    former, credentials = vault.load_template(name), [plain(c.facts(name)) for c in vault.credentials(name)]
    _confirm_loss(name, credentials, yes)
    session = start_session(settings, [t for t in all_templates(vault) if t.user_id != former.user_id])
    utterances = collect(session, recordings, settings.capture)
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
        Text.assemble(("enrolled anew", "bold green"), f"  {former.name}; {counted(len(ended), 'credential')} ended"),
    )


@app.command()
def renew(
    ctx: typer.Context,
    name: Name,
    files: Files = None,
    microphone: Microphone = False,
    device: Device = None,
    former_model: Annotated[
        str | None,
        typer.Option(metavar="CARD", help="Card of the model that NAME was enrolled with.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Replace the template for the model in use, as for another microphone.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Record user NAME for the identity model in use, after a change of models. All credentials stay.

    Where NAME has a template for that model already, and no other detectors are in use than have scored NAME's
    enrolment, nothing is recorded or changed, unless with --again.

    Nobody else may pass for NAME here: the former model has to recognise every utterance, where it can be found
    ([bold]--former-model[/], \\[models] former, or among the shipped ones). Without it the daemon asks for NAME's PIN;
    an admin may go without, on being asked or with --yes. The former template stays, for the way back.

    Example:

    voiceid users renew ada new-1.wav new-2.wav new-3.wav --former-model old/identity-pi.json
    """
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            if former_model is not None:
                raise typer.BadParameter("a daemon runs: name the former card in [models] former, or name a --vault")
            if not again and not _lacks(client.call("users.show", user=name)["user"]):
                _nothing_to_renew(context, name)
                return
            made = _renew_remotely(client, context, name, (files or [], microphone, device), yes)
            context.emit({"name": made["user"], "renewed": True, **made}, _renewed(made["user"], made["model_name"]))
            return
    settings = context.settings(device=device)
    vault = open_vault(settings)
    template = vault.load_template(name)
    if not again and not _lacks(_local_user(context, name)["user"]):
        _nothing_to_renew(context, name)
        return
    check_source(files or [], microphone, settings.capture)
    recordings = read_all(files or [])
    check_storing(vault)
    from voiceid.enrolment.renewal import find_former, save_renewal

    former = find_former(template, settings.models, former_model)
    if former is None:
        warn(f"the identity model {template.model_name!r} ({template.model_sha256[:12]}) is not here to tell {name!r}")
        confirm(_UNVERIFIED.format(name), yes)
    session = start_session(settings, [], recognised=former.recognises if former else None)
    utterances = collect(session, recordings, settings.capture)
    try:
        stored = save_renewal(vault, template, session)
    except EnrolmentError:
        if context.json:
            context.emit({"name": name, "renewed": False, "progress": session.progress, "utterances": utterances})
        raise
    facts = {
        "name": stored.name,
        "renewed": True,
        "verified": former is not None,
        "model_name": stored.model_name,
        "model_sha256": stored.model_sha256,
        "credentials": len(vault.credentials(name)),
        "utterances": utterances,
    }
    context.emit(facts, _renewed(stored.name, stored.model_name))


def _readable(user: dict[str, Any]) -> dict[str, str]:
    """What is known of ``user``, for people: labels with texts."""

    def short(digests: list[str]) -> str:
        return ", ".join(digest[:12] for digest in digests) or "none"

    return {
        "name": user["name"],
        "enrolled": show_moment(user["created"]),
        "speech": f"{user['net_speech']:.1f} s in {user['utterance_count']} utterances",
        "enrolled with model": f"{user['model_name']} ({user['model_sha256'][:12]})",
        "can be matched by models": short(user["models"]),
        "scored by detectors": short(user["measured_by"]),
        "detectors that cannot judge relative": ", ".join(user["not_relative"]) or "none",
        "has to be renewed": "yes" if user["renew"] else "no",
        "owner (uid)": str(user["owner_uid"]),
        "number of credentials": str(user["credential_count"]),
    }


def _confirm_loss(name: str, credentials: list[dict[str, Any]], yes: bool) -> None:
    """List the credentials that enrolling anew ends, and ask."""
    if credentials:
        stderr().print(_credential_lines(credentials), soft_wrap=True)
    losing = f" and lose {counted(len(credentials), 'credential')}" if credentials else ""
    confirm(f"Enrol {name!r} anew{losing}?", yes)


def _renew_remotely(
    client: Client, context: Context, name: str, source: tuple[list[Path], bool, str | None], yes: bool
) -> dict[str, Any]:
    from voiceid.service.client import RemoteError

    try:
        return enrol_remotely(client, context, name, *source, renew=True, again=True)
    except RemoteError as error:
        if error.fault is not Fault.UNVERIFIED:
            raise
        warn(str(error))
    client.call("release")
    if yes:
        return enrol_remotely(client, context, name, *source, renew=True, again=True, unverified=True)
    return enrol_remotely(client, context, name, *source, renew=True, again=True, pin=secret(f"PIN of {name}"))


def _lacks(user: dict[str, Any]) -> bool:
    """Whether ``user`` lacks a template for the identity model in use, or what the detectors in use score of it."""
    return bool(user["renew"] or user["not_relative"])


def _nothing_to_renew(context: Context, name: str) -> None:
    text = f"nothing to renew: {name} has a template for the identity model in use; --again replaces it"
    context.emit({"name": name, "renewed": False}, Text(text))


def _renewed(name: str, model_name: str) -> Text:
    return Text.assemble(("renewed", "bold green"), f"  {name} for {model_name}; all credentials stay")


def _local_users(context: Context) -> tuple[list[dict[str, Any]], str]:
    """The users whose enrolment can be read, and what to say if there is none."""
    settings = context.settings()
    vault = open_vault(settings)
    problems = vault.problems()
    for problem in problems:
        warn(problem)
    model, detectors = identity_in_use(settings), relative_detectors(settings)
    users = [plain(user.facts(model, detectors)) for user in vault.list_users()]
    return users, "no enrolment can be read; see the warnings" if problems else _NOBODY


def _local_user(context: Context, name: str) -> dict[str, Any]:
    settings = context.settings()
    vault = open_vault(settings)
    user = vault.show_user(name)
    credentials = [plain(credential.facts(user.name)) for credential in vault.credentials(name)]
    facts = user.facts(identity_in_use(settings), relative_detectors(settings))
    return {"user": plain(facts), "credentials": credentials}


def _credentials_or_damage(vault: Vault, name: str) -> Text:
    try:
        return _credential_lines([plain(credential.facts(name)) for credential in vault.credentials(name)])
    except VaultError as problem:
        return Text(f"warning: {problem}")


def _remote_credentials_or_damage(client: Client, name: str) -> Text:
    from voiceid.service.client import RemoteError

    try:
        return _credential_lines(client.call("credentials.list", user=name)["credentials"])
    except RemoteError as problem:
        if problem.fault is not Fault.VAULT:
            raise
        return Text(f"warning: {problem}")


def _credential_lines(credentials: list[dict[str, Any]]) -> Text:
    lines = (f"  {c['relying_party']}  {show_moment(c['created'])}  {c['credential_id'][:24]}..." for c in credentials)
    return Text("\n".join(["credentials:", *lines]) if credentials else "no credentials")
