"""``voiceid lockout``: after repeated failures."""

from __future__ import annotations

import typer
from rich.text import Text

from voiceid.cli.arguments import Name
from voiceid.cli.context import Context, command_app, context_of
from voiceid.cli.loading import open_vault
from voiceid.cli.remote import daemon

app = command_app("Show and reset the lock-out: five failures bring a delay that grows, 25 disable the voice.")


@app.command()
def show(ctx: typer.Context, name: Name) -> None:
    """Show whether user NAME is locked, and for how long; for admins the counts too."""
    context = context_of(ctx)
    with daemon(context) as client:
        report = client.call("lockout.show", user=name) if client else _local_report(context, name)
    context.emit({"name": name, **report}, Text("\n".join(_lines(report))))


@app.command()
def reset(ctx: typer.Context, name: Name) -> None:
    """Forget all failures of user NAME (admins): also where the voice is disabled or the state is damaged."""
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            client.call("lockout.reset", user=name)
        else:
            from voiceid.service.lockout import Lockout

            Lockout(open_vault(context.settings())).reset(name)
    context.emit({"name": name, "reset": True}, Text(f"{name}: all failures forgotten"))


def _local_report(context: Context, name: str) -> dict[str, object]:
    from dataclasses import asdict

    from voiceid.service.lockout import Lockout

    return asdict(Lockout(open_vault(context.settings())).report(name))


def _lines(report: dict[str, object]) -> list[str]:
    if report.get("problem"):
        return [str(report["problem"])]
    if report["disabled"]:
        lines = ["disabled: too many failures; only an admin can end it, with 'voiceid lockout reset'"]
    elif report["locked"]:
        lines = [f"locked for another {report['retry_after']} s" + ("; a PIN ends it" if report["pin"] else "")]
    else:
        lines = ["not locked"]
    if "failures" in report:
        lines.append(f"{report['failures']} failures and {report['inconclusives']} inconclusive utterances in a row")
        lines.append(f"{report['pin_tries']} tries of the PIN left" if report["pin"] else "no usable PIN")
    return lines
