"""``voiceid daemon``: the resident agent."""

from __future__ import annotations

import typer

from voiceid.cli.context import command_app, context_of

app = command_app()


@app.command()
def daemon(ctx: typer.Context) -> None:
    """Run the resident daemon in the foreground: it owns microphone, models and vault and listens on a Unix socket.

    SIGTERM stops it, SIGHUP reads the configuration and the models again. Under systemd it takes the socket of
    voiceid.socket and tells when it is ready and alive. Log lines go to the journal or to standard error.
    """
    from voiceid.service.audit import set_up_logging
    from voiceid.service.daemon import run

    set_up_logging()
    run(context_of(ctx).settings)
