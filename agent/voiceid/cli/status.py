"""``voiceid status``: how the daemon is."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.context import command_app, context_of
from voiceid.cli.remote import required_daemon

app = command_app()


@app.command()
def status(ctx: typer.Context) -> None:
    """Show how the daemon is: version, microphone, activation; for admins users, models and problems too.

    Without a daemon this is exit code 32; [bold]voiceid doctor[/] looks at the machine then.
    """
    context = context_of(ctx)
    with required_daemon(context) as client:
        facts = client.call("status")
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        shown = ", ".join(f"{k}: {v}" for k, v in shown.items()) if isinstance(shown, dict) else shown
        table.add_row(key, Text(str(shown)))
    context.emit(facts, table)
