"""``voiceid doctor``: is this machine ready?"""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.context import command_app, context_of
from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.output import progress

app = command_app()

STYLES = {"ok": "green", "warn": "bold yellow", "fail": "bold red"}


@app.command()
def doctor(ctx: typer.Context) -> ExitCode:
    """Check Python, configuration, models, sound, wake word, vault, keys, clock, disk and memory, and say what to do.

    Exit code 0 if nothing failed (warnings allowed), 30 otherwise.

    Example:

    voiceid doctor --vault ~/voices
    """
    context = context_of(ctx)
    with progress("checking"):
        from voiceid.doctor import Status, run_checks

        checks = run_checks(context.config, context.vault_folder)
    table = Table.grid(padding=(0, 2))
    for check in checks:
        detail = Text(check.detail)
        if check.advice:
            detail.append(f"\n-> {check.advice}", style="italic")
        table.add_row(Text(check.status.value, style=STYLES[check.status.value]), check.name, detail)
    failed = any(check.status is Status.FAIL for check in checks)
    context.emit({"ok": not failed, "checks": checks}, table)
    return ExitCode.CHECK_FAILED if failed else ExitCode.ACCEPTED
