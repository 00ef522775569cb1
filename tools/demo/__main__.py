"""``python -m tools.demo``: enrol a person and run every case through the pipeline.

Exits with 0 if every outcome is right, 1 if one is wrong, 2 if the demo cannot run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import soundfile
from rich.console import Console
from rich.progress import track

from tools.demo.cases import commands_needed, make_cases
from tools.demo.report import outcome_table, results, sent_table, time_table
from tools.demo.run import CODEBOOK, DemoError, Stage, Trial, enrol, trials
from tools.demo.service import RP_ID, Service
from tools.demo.voices import Voice, VoicesError, debian_voices, folder_voices
from voiceid.credentials.authenticator import Authenticator
from voiceid.enrolment.opening import open_vault
from voiceid.errors import VoiceIdError
from voiceid.output_file import write_file
from voiceid.pipeline import Pipeline
from voiceid.plotting import plot_decision
from voiceid.settings import PathSettings, Settings
from voiceid.types import SAMPLE_RATE

CACHE = Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid") / "demo"
USER = "owner"


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--samples", type=Path, metavar="FOLDER", help="recordings, one sub-folder for each person")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="where pictures go")
    parser.add_argument("--recordings", type=int, default=3, metavar="N", help="recordings for each case (default 3)")
    options = parser.parse_args()
    if options.recordings < 1:
        parser.error("--recordings must be at least 1")
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    try:
        count = commands_needed(options.recordings)
        voices = folder_voices(options.samples, count) if options.samples else debian_voices(CACHE, count)
        with tempfile.TemporaryDirectory(prefix="voiceid-demo-") as folder:
            done = demonstrate(voices, options.recordings, Path(folder), console)
        write(done, options.out, console)
    except (VoicesError, DemoError, VoiceIdError) as error:
        console.print(f"[bold red]The demo cannot run:[/] {error}")
        return 2
    wrong = sum(not trial.right for trial in done)
    verdict = (
        f"[bold green]All {len(done)} outcomes are right.[/]"
        if not wrong
        else (f"[bold red]{wrong} of {len(done)} outcomes are wrong.[/]")
    )
    console.print(verdict, f"Pictures and results.json are in {options.out}/.")
    return 1 if wrong else 0


def demonstrate(voices: tuple[Voice, ...], recordings: int, folder: Path, console: Console) -> list[Trial]:
    """Run everything in a new vault in ``folder`` and print what comes of it."""
    started = time.perf_counter()
    settings = Settings(paths=PathSettings(vault=folder / "vault"))
    pipeline = Pipeline.load(settings)
    vault, device_key = open_vault(settings.paths, create=True)
    stage = Stage(pipeline, vault, Authenticator(vault, device_key), Service(), USER)
    owner, *others = voices
    console.print(
        f"[bold]voiceid demo[/] on {platform.machine()}, models loaded in {time.perf_counter() - started:.1f} s. "
        f"Owner: {owner.name}. Strangers: {', '.join(voice.name for voice in others)}."
    )
    console.print("\n[bold]Enrolment[/]")
    enrol(stage, owner, lambda line: console.print(f"  {line}"))
    cases = make_cases(owner, tuple(others), recordings)
    total = sum(len(case.recordings) for case in cases)
    attempts = trials(stage, cases)
    hidden = not console.is_terminal
    done = list(track(attempts, "Deciding", total=total, console=console, transient=True, disable=hidden))
    for table in (outcome_table(done), time_table(done), sent_table(done)):
        console.print()
        console.print(table)
    receipts = [trial.receipt for trial in done if trial.receipt is not None]
    if receipts:
        console.print(
            f"  {RP_ID} verified each envelope with voiceid.relying_party (allow_file=True) and with py_webauthn.\n"
            f"  Without allow_file it is refused: {receipts[0].refusal}"
        )
    for trial in done:
        if not trial.right:
            reasons = "; ".join(trial.decision.reasons)
            console.print(
                f"  [red]wrong:[/] {trial.name} is {trial.decision.outcome}, not {trial.case.expected}: {reasons}"
            )
    console.print()
    return done


def write(done: list[Trial], folder: Path, console: Console) -> None:
    """Write a picture and the audio of every recording, and ``results.json``, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for trial in done:
        audio = io.BytesIO()
        soundfile.write(audio, trial.clip.samples, SAMPLE_RATE, format="WAV")
        write_file(folder / f"{trial.name}.wav", audio.getvalue())
        plot_decision(
            folder / f"{trial.name}.png",
            utterance=trial.utterance,
            decision=trial.decision,
            units=trial.units,
            codebook=CODEBOOK,
            title=f"{trial.case.title} ({trial.clip.name})",
        )
    write_file(folder / "results.json", (json.dumps(results(done), indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
