"""What an attacker makes speech with: copy-synthesis of stolen recordings, text-to-speech, and any program."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soxr

from tools.evaluation.audio import crop
from tools.studies.errors import StudyError
from tools.studies.voiceid.config import Attacks, Program
from tools.studies.voiceid.conversion import convert
from tools.train.data.attacks import kokoro
from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.systems import DEV_SYSTEMS, TRAIN_SYSTEMS
from voiceid.audio import read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples

COPIES = {**TRAIN_SYSTEMS, **DEV_SYSTEMS}
TEXT_TO_SPEECH, CONVERTED = "kokoro", "kokoro-converted"
KINDS = {TEXT_TO_SPEECH: "tts", CONVERTED: "vc"}
"""Kinds of attack, in the corpus's words, of the systems that are not copies."""
PROGRAM_SECONDS = 120
"""Longest time that a program may take for one command."""


@dataclass(frozen=True, slots=True)
class Order:
    """A command to make: its ``text``, and a stolen ``reference`` recording of the person it is aimed at."""

    text: str
    reference: Path


System = Callable[[Order, np.random.Generator], Samples]


def kinds_of(attacks: Attacks) -> dict[str, str]:
    """Every system's kind of attack: vocoder for a copy, vc, or tts."""
    systems = {name: "vocoder" if name in COPIES else KINDS.get(name, "tts") for name in attacks.systems}
    return systems | {program.name: program.kind for program in attacks.programs}


def load_system(name: str, attacks: Attacks) -> System:
    """The system ``name``.

    Raises:
        StudyError: unknown, or its network or program is not there.
    """
    for program in attacks.programs:
        if program.name == name:
            return _program(program)
    if name in COPIES:
        return _copy(name, attacks.seconds)
    if name == TEXT_TO_SPEECH:
        return lambda order, random: speak(order.text, random)
    if name == CONVERTED:
        return lambda order, random: convert(speak(order.text, random), read_waveform(order.reference).samples)
    known = ", ".join([*COPIES, *KINDS])
    raise StudyError(f"attacks: no system {name!r}; use {known}, or describe a program of that name")


def check_systems(attacks: Attacks) -> None:
    """Try every system that needs a network or a program.

    Raises:
        StudyError: one is not there, with what to do.
    """
    speech = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE).astype(np.float32)
    for name in attacks.systems:
        load_system(name, attacks)
        try:
            if name in COPIES:
                COPIES[name](speech, np.random.default_rng(0))
            else:
                synthesizer()
            if name == CONVERTED:
                convert(speech, speech)
        except (SystemExit, ImportError, OSError, RuntimeError, subprocess.CalledProcessError) as error:
            raise StudyError(f"attacks: system {name!r} cannot be used: {error}") from error
    for program in attacks.programs:
        _program(program)


def speak(text: str, random: np.random.Generator) -> Samples:
    """``text`` in a random stock voice of Kokoro, at a random speed: (n,) at 16 kHz."""
    voices = synthesizer().voices()
    voice = voices[int(random.integers(len(voices)))]
    spoken = synthesizer().synthesize(text, voice, float(random.uniform(0.9, 1.15)))
    return np.asarray(soxr.resample(spoken, kokoro.NATIVE_RATE, SAMPLE_RATE), np.float32)


@cache
def synthesizer() -> kokoro.Kokoro:
    """Kokoro, fetched into the cache the first time."""
    return kokoro.Kokoro(attack_folder("kokoro-model"))


def _copy(name: str, seconds: Sequence[float]) -> System:
    def system(order: Order, random: np.random.Generator) -> Samples:
        return COPIES[name](command_from(order.reference, seconds, random), random)

    return system


def command_from(recording: Path, seconds: Sequence[float], random: np.random.Generator) -> Samples:
    """A random stretch of ``recording`` as long as a command.

    Raises:
        AudioError: unreadable.
        UnfitError: shorter than the least length.
    """
    samples = read_waveform(recording).samples
    longest = max(seconds[0], min(seconds[1], len(samples) / SAMPLE_RATE - 0.01))
    return crop(samples, float(random.uniform(seconds[0], longest)), random)


def _program(program: Program) -> System:
    if not program.command or shutil.which(program.command[0]) is None:
        raise StudyError(f"attacks: program {program.name!r}: {' '.join(program.command)!r} is not to be found")
    if not any("{output}" in part for part in program.command):
        raise StudyError(f"attacks: program {program.name!r}: its command has no {{output}}")

    def system(order: Order, random: np.random.Generator) -> Samples:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "speech.wav"
            filled = {"{text}": order.text, "{reference}": str(order.reference), "{output}": str(output)}
            command = [_fill(part, filled) for part in program.command]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=PROGRAM_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise AudioError(f"{program.name}: took more than {PROGRAM_SECONDS} s for {order.text!r}") from error
            except subprocess.CalledProcessError as error:
                said = error.stderr.decode(errors="replace").strip()[-200:]
                raise AudioError(
                    f"{program.name}: exit status {error.returncode} for {order.text!r}: {said}"
                ) from error
            return read_waveform(output).samples

    return system


def _fill(part: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        part = part.replace(placeholder, value)
    return part
