"""hibari (PyPI's ``hibari-tts``, Apache-2.0): a small network that learnt one voice of Kokoro's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tools.train.data.attacks.engine import Speech, Voice
from tools.train.data.attacks.wheels import module_of_package

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
    return module_of_package(PACKAGE, "hibari", "hibari-package", needs="see pip's message").Hibari()
