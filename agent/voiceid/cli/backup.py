"""``voiceid backup``: enrolments in one file, under a passphrase."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from voiceid.cli.arguments import Yes, confirm
from voiceid.cli.asking import secret
from voiceid.cli.context import command_app, context_of
from voiceid.cli.loading import identity_in_use, open_vault, warn
from voiceid.cli.output import counted, plain, progress, stderr
from voiceid.cli.output_path import check_output
from voiceid.errors import BackupError
from voiceid.output_file import write_file
from voiceid.regular_file import read_regular
from voiceid.service.permissions import is_login_of_another
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from voiceid.enrolment.backup import Backup

app = command_app("Make and restore an encrypted backup of enrolments, also to move them to another device.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", show_default=False)]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Take the passphrase from the first line of FILE.", show_default=False),
]

MAX_UID = 2**32 - 2
_MAPPING = re.compile("([0-9]{1,10})=([0-9]{1,10})")


@app.command()
def create(
    ctx: typer.Context,
    file: File,
    passphrase_file: PassphraseFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it is there.")] = False,
) -> None:
    """Write users, templates and privacy profiles to FILE (0600), encrypted under a passphrase.

    Not in it: the device key and so the credentials, which are registered anew after a move; PINs and lock-out, which
    belong to one device; the configuration, and with it thresholds: copy that file. A daemon may run meanwhile.

    Example:

    voiceid backup create ada-and-bob.backup
    """
    context = context_of(ctx)
    settings = context.settings()
    check_output(file, context)
    if file.exists() and not overwrite:
        raise BackupError(f"{file}: exists already; --overwrite replaces it")
    vault = open_vault(settings)
    from voiceid.enrolment.backup import Backup, check_passphrase

    backup = Backup.of(vault.contents())
    passphrase = _passphrase(passphrase_file, confirmation=True)
    check_passphrase(passphrase)
    with progress("encrypting"):
        data = backup.seal(passphrase)
    write_file(file, data)
    users = [user.template.name for user in backup.users]
    facts = {"file": file, "bytes": len(data), "users": users, "profiles": sorted(backup.profiles)}
    held = f"{counted(len(users), 'user')}, {counted(len(backup.profiles), 'privacy profile')}"
    line = f"  {file}: {held}; credentials and PINs are not in it"
    context.emit(facts, Text.assemble(("backed up", "bold green"), line))


@app.command()
def restore(
    ctx: typer.Context,
    file: File,
    passphrase_file: PassphraseFile = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Owner uid there and here; may be repeated.", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace other enrolments of the same users, and other profiles.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Put the users of FILE into the vault, which is made if there is none. Run again after an interruption.

    Where users are enrolled here, lock-out and PIN stay as they are; an enrolment that differs is only replaced with
    --overwrite, which ends its credentials. Lists what has to be registered anew. A login name of this machine whose
    owner there is another uid here needs --owner.

    Example:

    voiceid backup restore ada-and-bob.backup --owner 1000=1001
    """
    context = context_of(ctx)
    settings = context.settings()
    owners = _owners(owner or [])
    from voiceid.enrolment import restoring
    from voiceid.enrolment.backup import MAX_BACKUP, check_backup, open_backup

    data = read_regular(file, MAX_BACKUP)
    check_backup(data)
    passphrase = _passphrase(passphrase_file, confirmation=False)
    with progress("decrypting"):
        opened = open_backup(data, passphrase)
    backup = restoring.with_owners(opened, owners)
    _check_logins(opened, owners)
    vault = open_vault(settings, create=True)
    if overwrite and (replaced := restoring.plan_restoration(vault, backup).replaced):
        stderr().print(f"other here than in the backup: {', '.join(replaced)}", markup=False, soft_wrap=True)
        confirm("Replace these enrolments? Credentials of an enrolment that ends are lost.", yes)
    restored = restoring.restore(vault, backup, overwrite=overwrite)
    names, model = [user.template.name for user in backup.users], identity_in_use(settings)
    for name in names:
        if vault.show_user(name).needs_renewal(model):
            warn(f"{name!r} was enrolled with another identity model: voiceid users renew")
    anew = _register_anew(backup, {name: vault.credentials(name) for name in names})
    facts = {
        "created": backup.created,
        **plain(restored.plan),
        "register_anew": anew,
        "ended_credentials": [plain(c.facts(name)) for name, ended in restored.ended.items() for c in ended],
    }
    count = len(restored.plan.new) + len(restored.plan.replaced)
    kept = f"{counted(count, 'user')}, {len(restored.plan.unchanged)} were there"
    line = f"  {kept}; backup of {show_moment(backup.created)}"
    rows = [f"  {row['user']}: {row['relying_party']}" for row in anew]
    notes = ["to be registered anew with their relying parties:", *rows] if rows else []
    notes += ["new users have no PIN here: voiceid pin set"] if restored.plan.new else []
    context.emit(facts, Text.assemble(("restored", "bold green"), line), Text("\n".join(notes)))


def _register_anew(backup: Backup, present: dict[str, Any]) -> list[dict[str, str]]:
    """Relying parties that knew a user of the backup and have no credential here."""
    known = {name: {credential.rp_id for credential in credentials} for name, credentials in present.items()}
    return [
        {"user": user.template.name, "relying_party": rp_id}
        for user in backup.users
        for rp_id in sorted(set(user.relying_parties) - known[user.template.name])
    ]


def _passphrase(file: Path | None, *, confirmation: bool) -> str:
    if file is None:
        return secret("Passphrase", confirm=confirmation)
    from voiceid.enrolment.backup import MAX_PASSPHRASE

    try:
        line = read_regular(file, 4 * MAX_PASSPHRASE).decode("utf-8").partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError:
        line = ""
    if not line:
        raise BackupError(f"{file}: no passphrase in its first line, which has to be UTF-8")
    return line


def _check_logins(backup: Backup, owners: Mapping[int, int]) -> None:
    """Insist on being told who owns an enrolment that has the login name of another uid here: it may unlock that."""
    for template in (user.template for user in backup.users):
        uid = template.owner_uid
        if uid not in (0, os.geteuid(), *owners) and is_login_of_another(template.name, uid):
            raise BackupError(
                f"{template.name!r} is the login of another uid here than {uid}, to whom the enrolment belonged there; "
                f"say whose it is: --owner {uid}=NEW. Nothing was changed"
            )


def _owners(texts: list[str]) -> dict[int, int]:
    owners: dict[int, int] = {}
    for text in texts:
        old, new = (int(uid) for uid in found.groups()) if (found := _MAPPING.fullmatch(text)) else (-1, -1)
        if not 0 <= old <= MAX_UID or not 0 <= new <= MAX_UID:
            raise typer.BadParameter(f"--owner {text[:40]!r} is not OLD=NEW with two uids, as 1000=1001")
        if old in owners:
            raise typer.BadParameter(f"--owner names uid {old} twice")
        owners[old] = new
    return owners
