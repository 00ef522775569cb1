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
from voiceid.settings import MAX_RECORDINGS
from voiceid.wall_clock import unix_seconds

if TYPE_CHECKING:
    from voiceid.enrolment.enrol import EnrolmentResult, EnrolmentSession
    from voiceid.enrolment.template import Template
    from voiceid.enrolment.vault import Vault
    from voiceid.service.client import Client
    from voiceid.settings import CaptureSettings, Settings
    from voiceid.types import Utterance, Waveform


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
    session: EnrolmentSession, recordings: list[tuple[Path, Waveform]], capture: CaptureSettings
) -> list[dict[str, Any]]:
    """Feed ``recordings``, or what is said until it suffices, to ``session``; feedback on each goes to standard error.

    Raises:
        AudioDeviceError: the microphone fails; nothing has been stored then.
    """
    if not recordings:
        return [_judge(session, source, waveform, stderr()) for source, waveform in _from_microphone(session, capture)]
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
    client: Client,
    context: Context,
    name: str,
    files: list[Path],
    microphone: bool,
    device: str | None,
    **more: Any,
) -> dict[str, Any]:
    """Let the daemon enrol ``name``; feedback on each utterance goes to standard error. Returns what it made.

    ``more`` are parameters of its method *enrol*.

    Raises:
        AudioError: a file cannot be read.
        RemoteError: it refused; incomplete with ``--json``, the feedback on each utterance is written first.
    """
    from voiceid.service.client import RemoteError
    from voiceid.service.schema import Fault

    refuse_device(device)
    if bool(files) == microphone:
        raise typer.BadParameter("give either audio files or --microphone")
    recordings = read_all(files)
    heard: list[dict[str, Any]] = []

    def listen(event: str, params: dict[str, Any]) -> None:
        if event != "enrol.progress":
            hear(event, params)
            return
        source = str(recordings[len(heard)][0]) if recordings else f"utterance {len(heard) + 1}"
        heard.append({"source": source, **{key: value for key, value in params.items() if key != "request"}})
        stderr().print(_line(source, params["accepted"], params["message"], params["progress"]), soft_wrap=True)

    handed = hand_over(client, [waveform for _, waveform in recordings])
    try:
        result = client.call("enrol", listen, user=name, audio=handed, **more)
    except RemoteError as error:
        if error.fault is Fault.ENROLMENT and heard and context.json:
            made = "renewed" if more.get("renew") else "enrolled"
            context.emit({"name": name, made: False, "progress": heard[-1]["progress"], "utterances": heard})
        raise
    if left := [str(path) for path, _ in recordings[len(heard) :]]:
        warn(f"not looked at, since an enrolment takes {MAX_RECORDINGS} recordings: {', '.join(left)}")
    result["utterances"] = heard
    for other in result.get("similar", ()):
        warn(f"{name!r} and {other!r} sound alike: either may be accepted as the other; prefer a PIN beside the voice")
    return result


def enrolled(facts: dict[str, Any]) -> Text:
    """One line on a new template."""
    speech = f"{facts['utterance_count']} utterances, {facts['net_speech']:.1f} s of speech"
    return Text.assemble(("enrolled", "bold green"), f"  {facts['user']} from {speech}")


def _judge(session: EnrolmentSession, source: str, waveform: Waveform, console: Console) -> dict[str, Any]:
    feedback = session.add(waveform)
    console.print(_line(source, feedback.accepted, feedback.message, feedback.progress), soft_wrap=True)
    return {"source": source, **plain(feedback)}


def _from_microphone(session: EnrolmentSession, capture: CaptureSettings) -> Iterator[tuple[str, Waveform]]:
    for number in range(1, MAX_RECORDINGS + 1):
        stderr().print(f"Utterance {number}: say a sentence of about four seconds in your usual voice.")
        yield f"utterance {number}", record(capture)
        if session.complete:
            return
    raise EnrolmentError(
        f"not enough usable speech in {MAX_RECORDINGS} recordings; see the reasons above, try elsewhere"
    )


def _line(source: str, accepted: bool, message: str, progress: float) -> Text:
    text = Text(f"{progress:>4.0%}  ", style="bold")
    text.append("taken   " if accepted else "refused ", style="green" if accepted else "red")
    text.append(source, style="default")
    if not accepted:
        text.append(f": {message}", style="default")
    return text
