"""Voices of RHVoice, a statistical parametric (HTS) synthesizer: Debian's packages ``rhvoice-*``.

The voices of Arctic speakers are left out: test recordings, genuine and artificial, are of the same speakers.
"""

from __future__ import annotations

from functools import partial

from tools.train.data.attacks.babble import CYRILLIC, LATIN, MACEDONIAN, Alphabet
from tools.train.data.attacks.debian import environment, unpack
from tools.train.data.attacks.engine import Speech, Voice, spoken_by

LANGUAGES = (
    *("albanian", "brazilian-portuguese", "english", "esperanto", "kyrgyz"),
    *("macedonian", "polish", "russian", "tatar", "ukrainian"),
)
PROGRAM = ("rhvoice", "librhvoice-core7", "librhvoice-audio2", "libao4", "libsonic0", "libglibmm-2.4-1v5")
PACKAGES = (*PROGRAM, "libsigc++-2.0-0v5", *(f"rhvoice-{language}" for language in LANGUAGES))
ALPHABETS: dict[str, Alphabet | None] = {
    **dict.fromkeys(("alan", "evgeniy-eng"), None),
    **dict.fromkeys(("hana", "Leticia-F123", "spomenka", "magda", "natan"), LATIN),
    **dict.fromkeys(("kiko", "suze"), MACEDONIAN),
}
"""What voices read; the others Cyrillic."""
LEFT_OUT = ("bdl", "clb", "slt")


def voices() -> list[Voice]:
    """All voices of the packages, by name."""
    folder = unpack(PACKAGES) / "usr" / "share" / "RHVoice" / "voices"
    names = sorted(path.name for path in folder.iterdir() if path.name not in LEFT_OUT)
    return [Voice(name, ALPHABETS.get(name, CYRILLIC), partial(_say, name)) for name in names]


def _say(voice: str, text: str, speed: float) -> Speech:
    program = unpack(()) / "usr" / "bin" / "RHVoice-test"
    # Its rate is in per cent of what the voice can do either way from its own.
    return spoken_by(
        lambda path: [program, "-p", voice, "-r", f"{round(100 * speed)}", "-o", path], environment(), text.encode()
    )
