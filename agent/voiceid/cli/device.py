"""``voiceid device``: the device key."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import Yes, confirm
from voiceid.cli.context import command_app, context_of
from voiceid.cli.loading import open_vault
from voiceid.cli.output import counted, plain, progress, stderr
from voiceid.wall_clock import show_moment

if TYPE_CHECKING:
    from pathlib import Path

    from voiceid.enrolment.contents import VaultContents
    from voiceid.settings import Settings

app = command_app("Show and rotate the device key.")


@app.command()
def show(ctx: typer.Context) -> None:
    """Show where the device key comes from, since when, and what depends on it; nothing of the key itself."""
    context = context_of(ctx)
    settings = context.settings()
    from voiceid.credentials.keys import systemd_credential

    contents = open_vault(settings).contents()
    passed, path = systemd_credential(), key_path(settings)
    status = (passed or path).stat()
    facts: dict[str, Any] = {
        "source": "systemd credential" if passed else "file",
        "path": passed or path,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "since": None if passed else int(status.st_mtime),
        "opens_the_vault": True,
        "users": len(contents.users),
        "credentials": sum(len(user.credentials) for user in contents.users),
    }
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        shown = show_moment(value) if key == "since" and value is not None else str(value)
        if value is not None:
            table.add_row(key.replace("_", " "), Text("yes" if value is True else shown))
    context.emit(facts, table)


@app.command("rotate-key")
def rotate_key(ctx: typer.Context, yes: Yes = False) -> None:
    """Replace the device key, and encrypt the vault anew under the new one. No daemon may run meanwhile.

    All credentials end, since their keys derive from the device key: they are listed first, each has to be registered
    anew with its relying party, and you are asked. Users, templates, PINs, lock-out and privacy profiles stay. A power
    cut leaves the old state or the new.

    Example:

    systemctl stop voiceid.socket voiceid.service && voiceid device rotate-key
    """
    context = context_of(ctx)
    settings = context.settings()
    from voiceid.enrolment.rotation import check_rotation, rotate_device_key

    path = key_path(settings)
    check_rotation(path)
    contents = open_vault(settings).contents()
    stderr().print(_what_ends(contents), soft_wrap=True, markup=False)
    count = sum(len(user.credentials) for user in contents.users)
    confirm(f"Replace the device key {path} and lose {counted(count, 'credential')}?", yes)
    with progress("encrypting anew"):
        made = rotate_device_key(settings.paths.vault, path)
    ended = [plain(credential.facts(name)) for name, credentials in made.ended.items() for credential in credentials]
    facts = {"rotated": True, "device_key": path, "users": made.users, "ended_credentials": ended}
    line = f"  {path}; {counted(len(made.users), 'user')} kept, {counted(len(ended), 'credential')} ended"
    context.emit(facts, Text.assemble(("rotated", "bold green"), line))


def key_path(settings: Settings) -> Path:
    """The file of the device key, where systemd does not hand it over."""
    return settings.paths.device_key or settings.paths.vault / "device.key"


def _what_ends(contents: VaultContents) -> str:
    rows = [
        f"  {user.template.name}: {credential.rp_id}, since {show_moment(credential.created)}"
        for user in contents.users
        for credential in user.credentials
    ]
    if not rows:
        return "no credentials; users, templates, PINs, lock-out and privacy profiles stay"
    return "\n".join(
        [
            "these credentials and their signature counters end; register each anew with its relying party:",
            *rows,
            "users, templates, PINs, lock-out and privacy profiles stay",
        ]
    )
