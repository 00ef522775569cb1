"""Commands that the daemon does, where one runs: it owns the vault then."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.decisions import STYLES, fused, shown_verdict
from voiceid.cli.exit_codes import ExitCode, code_of_outcome
from voiceid.cli.loading import warn
from voiceid.cli.output import stderr
from voiceid.errors import (
    AudioDeviceError,
    AudioError,
    ClockError,
    CredentialError,
    EnrolmentError,
    ModelError,
    NoSpeechError,
    PinError,
    ServiceError,
    SettingsError,
    UnknownUserError,
    VaultError,
    VoiceIdError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from voiceid.cli.context import Context
    from voiceid.service.client import Client
    from voiceid.types import Waveform

_OUTCOMES = {"accepted": "accepted", "denied": "rejected", "try_again": "inconclusive", "locked": "locked_out"}
"""The outcome whose exit code stands for an answer, where the daemon says no more."""

_START = "'systemctl start voiceid' or 'voiceid daemon'"

_STAGES = {"listening": "speak now", "speech": "listening", "judging": "judging"}


@contextmanager
def daemon(context: Context, *, counting: bool = False) -> Iterator[Client | None]:
    """A connection to the daemon, or None where none runs or ``--vault`` names another vault.

    With ``counting``, for what a daemon counts failures of, a warning says so where one should run and does not.

    Raises:
        ServiceError: it runs, but this user may not connect.
        VoiceIdError: what it refused, as the error that the command itself would have raised.
        BadParameter: an argument has an impossible value.
    """
    client = _connect(context)
    if client is None:
        if counting:
            _warn_of_none(context)
        yield None
        return
    with client, translated():
        yield client


@contextmanager
def required_daemon(context: Context) -> Iterator[Client]:
    """As :func:`daemon`, for what only a daemon can do.

    Raises:
        ServiceError: there is none.
    """
    client = _connect(context)
    if client is None:
        named = context.config and shlex.join(("voiceid", "--config", str(context.config), "daemon"))
        start = f'"{named}"' if named else _START
        raise ServiceError(f"no voiceid daemon runs here; start it with {start}")
    with client, translated():
        yield client


@contextmanager
def translated() -> Iterator[None]:
    """Raise what the daemon refuses as the package's own errors."""
    from voiceid.service.client import RemoteError
    from voiceid.service.schema import Fault

    errors: dict[Fault, type[VoiceIdError]] = {
        Fault.MICROPHONE: AudioDeviceError,
        Fault.NO_SPEECH: NoSpeechError,
        Fault.AUDIO: AudioError,
        Fault.CLOCK: ClockError,
        Fault.CREDENTIAL: CredentialError,
        Fault.ENROLMENT: EnrolmentError,
        Fault.UNKNOWN_USER: UnknownUserError,
        Fault.VAULT: VaultError,
        Fault.MODEL: ModelError,
        Fault.SETTINGS: SettingsError,
        Fault.PIN: PinError,
        Fault.PRESENT_PIN: PinError,
    }
    try:
        yield
    except RemoteError as error:
        if error.fault is Fault.INVALID_PARAMS:
            raise typer.BadParameter(str(error)) from error
        raise errors.get(error.fault, ServiceError)(str(error)) from error


def hand_over(client: Client, recordings: list[Waveform]) -> bool:
    """Give ``recordings`` to the daemon; whether there were any, for the parameter ``audio``."""
    if recordings:
        client.hand_over([waveform.samples for waveform in recordings])
    return bool(recordings)


def refuse_device(device: str | None) -> None:
    """The daemon has its own microphone."""
    if device is not None:
        raise typer.BadParameter("a daemon runs, and has its own microphone: set [capture] device, or name a --vault")


def hear(name: str, params: dict[str, Any]) -> None:
    """Tell people on standard error where a request stands."""
    if name == "progress":
        stderr().print(_STAGES.get(params["stage"], params["stage"]), style="dim")


def emit_answer(context: Context, result: dict[str, Any], name: str, *lines: str, **facts: Any) -> ExitCode:
    """Write what became of a ceremony: the answer and, for admins, the decision's grounds. Returns the exit code."""
    detail = result.get("detail", {})
    outcome = detail.get("outcome", _OUTCOMES[result["answer"]])
    code = code_of_outcome(outcome)
    lock = {key: result[key] for key in ("retry_after",) if key in result}
    value = {"name": name, **facts, "answer": result["answer"], **lock, "decision": result["decision"], **detail}
    headline = Text(result["answer"].replace("_", " "), style=STYLES.get(outcome, "bold red"))
    headline.append(f"  {name}", style="bold")
    headline.append(fused(detail.get("voiceid"), detail.get("voiceid_threshold")), style="default")
    reasons = "\n".join(f"  {reason}" for reason in (*detail.get("reasons", ()), *_lock_lines(lock, name)))
    context.emit({**value, "exit_code": int(code)}, headline, Text(reasons), _scores(detail), *lines)
    return code


def _socket(context: Context) -> Path | None:
    """Where the daemon would answer; None where there is none to ask."""
    if context.vault_folder is not None:
        return None
    from voiceid.service.sockets import client_socket

    service = context.settings().service
    return service.socket or client_socket(service)


def _connect(context: Context) -> Client | None:
    path = _socket(context)
    if path is None:
        return None
    from voiceid.service.client import Client
    from voiceid.service.sockets import is_served

    return Client(path) if is_served(path) else None


def _warn_of_none(context: Context) -> None:
    if path := _socket(context):
        warn(f"no daemon answers at {path}: this works on the vault itself, and counts no failures")


def _lock_lines(lock: dict[str, int], name: str) -> list[str]:
    """What to do about a lock, where the daemon tells how long it lasts."""
    if not lock:
        return []
    if not lock["retry_after"]:
        return [f"only an admin can end it: 'voiceid lockout reset {name}'"]
    return [f"try again in {lock['retry_after']} s; a PIN, where there is one, ends it: 'voiceid pin enter {name}'"]


def _scores(detail: dict[str, Any]) -> Table | str:
    evidence = detail.get("evidence")
    if not evidence:
        return ""
    table = Table("judge", "score (llr)", "threshold", "", box=None, pad_edge=True)
    for name, score in evidence.items():
        if score is None:  # a judge that is not switched on
            continue
        table.add_row(name, f"{score['llr']:+.2f}", f"{score['threshold']:+.2f}", shown_verdict(score["passed"]))
    return table
