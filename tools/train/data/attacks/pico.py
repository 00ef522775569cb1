"""Voices of SVOX Pico, a small statistical parametric synthesizer: PyPI's ``ttspico`` (Apache-2.0), built on fetching.

Kept for development: no detector is trained on it.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from tools.train.data.attacks.babble import LATIN
from tools.train.data.attacks.engine import SilentError, Speech, Voice
from tools.train.data.attacks.wheels import module_of_package

PACKAGE = "ttspico==0.3.2"
NATIVE_RATE = 16_000
LANGUAGES = ("en-GB", "en-US", "de-DE", "es-ES", "fr-FR", "it-IT")


def voices() -> list[Voice]:
    """One voice a language."""
    _module()
    return [Voice(name, None if name.startswith("en") else LATIN, partial(_say, name)) for name in LANGUAGES]


def _say(language: str, text: str, speed: float) -> Speech:
    engine = _engine(language)
    engine.rate = round(100 * speed)
    spoken = engine.speak(text)
    if not spoken:
        raise SilentError(f"Pico said nothing in {language}")
    return np.frombuffer(spoken, "<i2").astype(np.float32) / 32_768, NATIVE_RATE


@cache
def _engine(language: str) -> Any:
    return _module().TtsEngine(language)


@cache
def _module() -> Any:
    return module_of_package(
        PACKAGE, "ttspico", "pico-package", needs="it needs pip, a C compiler and Python's headers"
    )
