"""Voices of RHVoice, a statistical parametric (HTS) synthesizer: Debian's packages ``rhvoice-*``.

Of its voices only those that anybody may use for anything, by the packages' copyright file; most are not for commercial
use, or not to be changed. The voices of Arctic speakers are left out too: test recordings, genuine and artificial, are
of the same speakers.
"""

from __future__ import annotations

from functools import partial

from tools.train.data.attacks.babble import CYRILLIC, LATIN, Alphabet
from tools.train.data.attacks.debian import environment, unpack
from tools.train.data.attacks.engine import Speech, Voice, spoken_by

LANGUAGES = ("brazilian-portuguese", "english", "esperanto", "kyrgyz", "russian", "ukrainian")
PROGRAM = ("rhvoice", "librhvoice-core7", "librhvoice-audio2", "libao4", "libsonic0", "libglibmm-2.4-1v5")
PACKAGES = (*PROGRAM, "libsigc++-2.0-0v5", *(f"rhvoice-{language}" for language in LANGUAGES))
ALPHABETS: dict[str, Alphabet | None] = {
    "alan": None,
    **dict.fromkeys(("Leticia-F123", "spomenka"), LATIN),
    **dict.fromkeys(("aleksandr", "aleksandr-hq", "anatol", "anna", "azamat"), CYRILLIC),
    **dict.fromkeys(("elena", "irina", "natalia", "nazgul"), CYRILLIC),
}
"""The voices, and what they read. Leticia-F123 and aleksandr-hq: CC BY-SA 4.0; the others: LGPL-2.1+."""


def voices() -> list[Voice]:
    """All of these voices, by name."""
    unpack(PACKAGES)
    return [Voice(name, ALPHABETS[name], partial(_say, name)) for name in sorted(ALPHABETS)]


def _say(voice: str, text: str, speed: float) -> Speech:
    program = unpack(()) / "usr" / "bin" / "RHVoice-test"
    # Its rate is in per cent of what the voice can do either way from its own.
    return spoken_by(
        lambda path: [program, "-p", voice, "-r", f"{round(100 * speed)}", "-o", path], environment(), text.encode()
    )
