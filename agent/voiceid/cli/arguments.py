"""Arguments and options that several commands share, and the audio they lead to."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voiceid.cli.asking import confirmed
from voiceid.cli.loading import warn
from voiceid.cli.output import progress, stderr

if TYPE_CHECKING:
    from voiceid.settings import CaptureSettings
    from voiceid.types import Waveform


def _no_file(name: str) -> str:
    """Refuse the recording that takes the place of a forgotten name."""
    with contextlib.suppress(OSError, ValueError):  # a name that is no possible path
        if Path(name).suffix and Path(name).is_file():
            raise typer.BadParameter(f"{name!r} is a file; the user's name comes first, as in 'ada {name}'")
    return name


Name = Annotated[str, typer.Argument(metavar="NAME", help="User name.", show_default=False, callback=_no_file)]
AudioFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="Recording: WAV, FLAC, OGG or MP3.", show_default=False)
]
Microphone = Annotated[bool, typer.Option("--microphone", help="Record from the microphone instead of a file.")]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Part of the microphone's name; default: that of the configuration, else the system's.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RelyingParty = Annotated[
    str, typer.Option("--relying-party", metavar="ID", help="Domain of the service, as shop.example.org.")
]
Challenge = Annotated[
    str, typer.Option(metavar="B64", help="The service's challenge: base64url or base64, at least 16 bytes.")
]

MIN_CHALLENGE = 16
TOLERANCE = 0.05
"""Seconds that may be missing from a recording without a word."""


def audio_source(file: Path | None, microphone: bool, capture: CaptureSettings) -> Callable[[], Waveform]:
    """Where the utterance comes from: a file is read at once, a microphone is looked for now and recorded when called.

    Raises:
        AudioError: the file cannot be read, or there is no microphone.
    """
    check_source([file] if file else [], microphone, capture)
    if file is None:
        return lambda: record(capture)
    waveform = read_all([file])[0][1]
    return lambda: waveform


def read_source(file: Path | None, microphone: bool) -> list[Waveform]:
    """What to hand to the daemon: the recording, or nothing where it is to listen itself.

    Raises:
        AudioError: the file cannot be read.
    """
    if (file is not None) == microphone:
        raise typer.BadParameter("give either an audio file or --microphone")
    return [waveform for _, waveform in read_all([file])] if file is not None else []


def check_source(files: list[Path], microphone: bool, capture: CaptureSettings) -> None:
    """Insist on files or the microphone, not both, and on a microphone that is there.

    Raises:
        AudioDeviceError: there is none.
    """
    if bool(files) == microphone:
        raise typer.BadParameter("give either audio files or --microphone")
    if microphone:
        from voiceid.audio.microphone import choose_microphone

        choose_microphone(capture.device)


def read_all(files: list[Path]) -> list[tuple[Path, Waveform]]:
    """Each file with its audio.

    Raises:
        AudioError: one cannot be read.
    """
    return [(file, read_recording(file)) for file in files]


def read_recording(file: Path) -> Waveform:
    """The audio in ``file``, with a warning where it is cut short.

    Raises:
        AudioError: it cannot be read.
    """
    from voiceid.audio.files import promised_seconds, read_waveform

    waveform = read_waveform(file)
    promised = promised_seconds(file)
    if promised is not None and waveform.seconds < promised - TOLERANCE:
        warn(f"{file}: cut short: {waveform.seconds:.1f} s read of the {promised:.1f} s that its header promises")
    return waveform


def record(capture: CaptureSettings) -> Waveform:
    """One utterance from the microphone, with a level bar on standard error.

    Raises:
        AudioDeviceError: no usable microphone.
    """
    from voiceid.audio.microphone import MAX_SECONDS, choose_microphone, record_utterance

    console = stderr()
    console.print(f"speak now ({choose_microphone(capture.device).name})", markup=False)
    with progress("listening", MAX_SECONDS) as bar:
        return record_utterance(
            capture.device,
            on_progress=lambda seconds, rms: bar.to(seconds, f"listening {'|' * min(20, int(rms * 100)):<20}"),
        )


def decode_bytes(text: str, what: str, *, least: int = 1) -> bytes:
    """Bytes from base64url or base64, with or without padding."""
    plain = text.strip().rstrip("=").replace("+", "-").replace("/", "_")
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise typer.BadParameter(f"{what} {text[:40]!r} is not base64") from None
    if len(data) < least:
        raise typer.BadParameter(f"{what} has {len(data)} bytes; at least {least} are needed")
    return data


def confirm(question: str, yes: bool) -> None:
    """Ask on the terminal; ``--yes`` answers."""
    if not yes and not confirmed(question):
        raise typer.Abort


def encode_bytes(data: bytes) -> str:
    """base64url without padding, as WebAuthn writes bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
