"""What a speech synthesizer is to the making of attacks: named voices that say a text."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from tools.train.data.attacks.babble import Alphabet
from voiceid.types import Samples

Speech = tuple[Samples, int]
"""float32 (n,) and its sample rate."""


@dataclass(frozen=True)
class Voice:
    """A voice; ``alphabet`` is what it can read, None English sentences.

    ``say`` takes a text and a speed (1 as the voice itself speaks) and raises `SilentError` when nothing came out.
    """

    name: str
    alphabet: Alphabet | None
    say: Callable[[str, float], Speech]


class SilentError(RuntimeError):
    """A synthesizer gave no sound."""


def spoken_by(command: Callable[[Path], list[str | Path]], environment: dict[str, str], text: bytes = b"") -> Speech:
    """What the program of ``command`` writes to the file it is given, with ``text`` on its standard input.

    Raises:
        SilentError: it failed, or its file is missing or empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        arguments = command(path)
        done = subprocess.run(arguments, input=text, capture_output=True, env=environment, check=False, timeout=60)
        if not path.exists() or path.stat().st_size < 1_000:
            message = done.stderr.decode(errors="replace").strip()[-300:]
            raise SilentError(f"{Path(arguments[0]).name} gave no speech (exit {done.returncode}): {message}")
        samples, rate = soundfile.read(path, dtype="float32")
    return np.asarray(samples if samples.ndim == 1 else samples[:, 0], np.float32), rate
