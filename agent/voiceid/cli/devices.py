"""``voiceid devices``: which microphones there are, and whether one works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.arguments import Device
from voiceid.cli.context import command_app, context_of
from voiceid.cli.output import progress

if TYPE_CHECKING:
    from voiceid.audio.device import Microphone
    from voiceid.audio.meter import MicrophoneTest

app = command_app()

METER = 30
"""Characters of the level meter."""
LOWEST = -60.0
"""Level (dBFS) at its left end."""


@app.command()
def devices(
    ctx: typer.Context,
    test: Annotated[bool, typer.Option("--test", help="Listen to the microphone and show its level.")] = False,
    seconds: Annotated[float, typer.Option(min=0.5, max=60, metavar="N", help="How long to listen.")] = 5.0,
    device: Device = None,
) -> None:
    """List the microphones, or try the one that would be used: speak while the meter runs.

    The one in use is marked: the system's, the one that the configuration names, or the one of --device.

    Examples:

    voiceid devices

    voiceid devices --test --device USB
    """
    context = context_of(ctx)
    settings = context.settings(device=device)
    from voiceid.audio.device import choose
    from voiceid.audio.meter import try_microphone
    from voiceid.audio.portaudio import PortAudioBackend

    backend = PortAudioBackend()
    found = backend.microphones()
    chosen = choose(found, settings.capture.device)
    if not test:
        context.emit({"devices": found, "chosen": chosen.name}, _listing(found, chosen))
        return
    with progress("listening", seconds) as bar:
        result = try_microphone(
            backend, chosen, seconds, settings.quality, on_level=lambda at, level: bar.to(at, meter(level))
        )
    context.emit(result, _summary(result))


def meter(level: float) -> str:
    """A level (dBFS) as a bar and a number."""
    filled = round(METER * min(1.0, max(0.0, 1 - level / LOWEST)))
    return f"{'|' * filled:<{METER}} {level:6.1f} dBFS"


def _listing(found: Sequence[Microphone], chosen: Microphone) -> Table:
    table = Table.grid(padding=(0, 2))
    for microphone in found:
        mark = "*" if microphone == chosen else ""
        note = "default" if microphone.default else ""
        table.add_row(mark, microphone.name, f"{microphone.channels} ch", f"{microphone.rate} Hz", note)
    return table


def _summary(result: MicrophoneTest) -> Text:
    quality = result.quality
    lines = [
        f"{result.microphone.name}: {quality.seconds:.1f} s, {quality.net_speech:.1f} s of speech",
        f"speech {quality.speech_dbfs:.1f} dBFS, peak {result.peak_dbfs:.1f} dBFS, "
        f"signal to noise about {quality.snr_db:.0f} dB",
    ]
    if result.dropped or result.overflows:
        lines.append(f"lost audio: {result.dropped} sample frames dropped, {result.overflows} overflows")
    text = Text("\n".join(lines))
    if quality.faults:
        text.append(
            f"\nnot good enough: {', '.join(fault.replace('_', ' ') for fault in quality.faults)}", "bold yellow"
        )
    else:
        text.append("\ngood", "green")
    return text
