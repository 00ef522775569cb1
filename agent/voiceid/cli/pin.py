"""``voiceid pin``: the other way out of a delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from voiceid.cli.arguments import Name
from voiceid.cli.asking import secret
from voiceid.cli.context import command_app, context_of
from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.remote import required_daemon
from voiceid.service.schema import Fault

if TYPE_CHECKING:
    from voiceid.service.client import Client

app = command_app(
    "Set, clear and enter a user's PIN: it ends a delay of the lock-out, not the disabling. Needs a daemon."
)

_CODES = {"accepted": ExitCode.ACCEPTED, "denied": ExitCode.REJECTED, "locked": ExitCode.LOCKED_OUT}


@app.command("set")
def set_pin(ctx: typer.Context, name: Name) -> None:
    """Give user NAME a PIN of 4 to 64 characters; it is asked for, as is the present one where there is one.

    Where standard input is no terminal, its first line is the new PIN, without a repetition, and its second the
    present one, read only if it is needed. Exit code 33: it cannot be used, or this is not the present PIN.

    Example:

    printf '2580\\n' | voiceid pin set ada
    """
    from voiceid.service.pin import check_length

    context = context_of(ctx)
    with required_daemon(context) as client:
        pin = secret("New PIN", confirm=True)
        check_length(pin)
        _with_present(client, "pin.set", user=name, pin=pin)
    context.emit({"name": name, "pin": True}, Text(f"{name} has a PIN now"))


@app.command()
def clear(ctx: typer.Context, name: Name) -> None:
    """Remove the PIN of user NAME; whoever is no admin is asked for it. Exit code 33: there is none, or it is wrong."""
    context = context_of(ctx)
    with required_daemon(context) as client:
        _with_present(client, "pin.clear", user=name)
    context.emit({"name": name, "pin": False}, Text(f"{name} has no PIN any more"))


@app.command()
def enter(ctx: typer.Context, name: Name) -> ExitCode:
    """Enter the PIN of user NAME, which ends a delay. Exit code 10: wrong; 16: there is none, or no try is left.

    Where standard input is no terminal, the PIN is its first line.
    """
    context = context_of(ctx)
    with required_daemon(context) as client:
        answer = client.call("pin.enter", user=name, pin=secret("PIN"))["answer"]
    why = "; there is no PIN, or no try is left" if answer == "locked" else ""
    context.emit({"name": name, "answer": answer}, Text(f"{answer}  {name}{why}"))
    return _CODES[answer]


def _with_present(client: Client, method: str, **params: Any) -> None:
    """Call ``method``; ask for the present PIN if the daemon wants it."""
    from voiceid.service.client import RemoteError

    try:
        client.call(method, **params)
    except RemoteError as error:
        if error.fault is not Fault.PRESENT_PIN:
            raise
        client.call(method, **params, current=secret("Present PIN"))
