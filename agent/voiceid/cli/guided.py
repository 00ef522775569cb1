"""Guided enrolment on the terminal, for ``enroll``, ``users reenroll`` and ``users renew``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from voiceid.cli.arguments import read_all, record
from voiceid.cli.context import Context
from voiceid.cli.loading import warn
from voiceid.cli.output import plain, progress, stderr
from voiceid.cli.remote import hand_over, hear, refuse_device
from voiceid.errors import EnrolmentError
from voiceid.wall_clock import unix_seconds

if TYPE_CHECKING:
    from voiceid.enrolment.enrol import EnrolmentFeedback, EnrolmentResult, EnrolmentSession
    from voiceid.enrolment.template import Template
    from voiceid.enrolment.vault import Vault
    from voiceid.service.client import Client
    from voiceid.settings import Settings
    from voiceid.types import Utterance, Waveform

MAX_RECORDINGS = 20
"""Utterances that are recorded before a microphone enrolment gives up."""


def check_storing(vault: Vault) -> None:
    """Fail before anything is said where no enrolment could be stored.

    Raises:
        VaultError: the vault is read-only.
        ClockError: the clock shows no date.
    """
    vault.check_writable()
    unix_seconds()


def start_session(
    settings: Settings, others: list[Template], *, recognised: Callable[[Utterance], bool] | None = None
) -> EnrolmentSession:
    """Load the judges and start; with ``recognised`` only the utterances that it takes count.

    Raises:
        ModelError: a model cannot be used.
    """
    with progress("loading models"):
        from voiceid.enrolment.enrol import EnrolmentSession
        from voiceid.scoring.judges import Judges

        return EnrolmentSession(Judges.load(settings.models), settings, others, recognised=recognised)


def collect(
    session: EnrolmentSession, recordings: list[tuple[Path, Waveform]], device: str | None
) -> list[dict[str, Any]]:
    """Feed ``recordings``, or what is said until it suffices, to ``session``; feedback on each goes to standard error.

    Raises:
        AudioDeviceError: the microphone fails; nothing has been stored then.
    """
    if not recordings:
        return [_judge(session, source, waveform, stderr()) for source, waveform in _from_microphone(session, device)]
    with progress("judging", len(recordings)) as bar:
        heard = []
        for path, waveform in recordings:
            heard.append(_judge(session, str(path), waveform, bar.console))
            bar.advance()
    return heard


def finish(session: EnrolmentSession, name: str, utterances: list[dict[str, Any]], context: Context) -> EnrolmentResult:
    """The template, owned by who runs this; warns of users who sound alike.

    Raises:
        EnrolmentError: incomplete; with ``--json`` the feedback on each utterance is written first.
    """
    try:
        result = session.finish(name, owner_uid=os.getuid())
    except EnrolmentError:
        if context.json:
            context.emit({"name": name, "enrolled": False, "progress": session.progress, "utterances": utterances})
        raise
    for other in result.similar:
        warn(f"{name!r} and {other!r} sound alike: either may be accepted as the other; prefer a PIN beside the voice")
    return result


def enrol_remotely(
    client: Client, name: str, files: list[Path], microphone: bool, device: str | None, **more: Any
) -> dict[str, Any]:
    """Let the daemon enrol ``name``; feedback on each utterance goes to standard error. Returns what it made.

    Raises:
        AudioError: a file cannot be read.
    """
    refuse_device(device)
    if bool(files) == microphone:
        raise typer.BadParameter("give either audio files or --microphone")
    recordings = [waveform for _, waveform in read_all(files)]
    result = client.call("enrol", _hear, user=name, audio=hand_over(client, recordings), **more)
    for other in result.get("similar", ()):
        warn(f"{name!r} and {other!r} sound alike: either may be accepted as the other; prefer a PIN beside the voice")
    return result


def enrolled(facts: dict[str, Any]) -> Text:
    """One line on a new template."""
    speech = f"{facts['utterance_count']} utterances, {facts['net_speech']:.1f} s of speech"
    return Text.assemble(("enrolled", "bold green"), f"  {facts['user']} from {speech}")


def _hear(name: str, params: dict[str, Any]) -> None:
    if name != "enrol.progress":
        hear(name, params)
        return
    word = "taken" if params["accepted"] else f"refused: {params['message']}"
    stderr().print(f"{params['progress']:>4.0%}  {word}", markup=False)


def _judge(session: EnrolmentSession, source: str, waveform: Waveform, console: Console) -> dict[str, Any]:
    feedback = session.add(waveform)
    console.print(_line(source, feedback), soft_wrap=True)
    return {"source": source, **plain(feedback)}


def _from_microphone(session: EnrolmentSession, device: str | None) -> Iterator[tuple[str, Waveform]]:
    for number in range(1, MAX_RECORDINGS + 1):
        stderr().print(f"Utterance {number}: say a sentence of about four seconds in your usual voice.")
        yield f"utterance {number}", record(device)
        if session.complete:
            return
    raise EnrolmentError(
        f"not enough usable speech in {MAX_RECORDINGS} recordings; see the reasons above, try elsewhere"
    )


def _line(source: str, feedback: EnrolmentFeedback) -> Text:
    text = Text(f"{feedback.progress:>4.0%}  ", style="bold")
    text.append("taken   " if feedback.accepted else "refused ", style="green" if feedback.accepted else "red")
    text.append(source, style="default")
    if not feedback.accepted:
        text.append(f": {feedback.message}", style="default")
    return text
