"""Voices of Festival for languages other than English: diphones, units selected from sentences, and HTS.

From Debian's packages ``festvox-*``. Its English voices are test attacks and none of them is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.train.data.attacks.babble import CYRILLIC, CZECH, FINNISH, LATIN, Alphabet
from tools.train.data.attacks.debian import environment, unpack
from tools.train.data.attacks.engine import Speech, Voice, spoken_by

PROGRAM = ("festival", "libestools2.5", "festlex-poslex", "festlex-cmu")


@dataclass(frozen=True)
class Language:
    """Voices of one language: by their names in Festival, the packages they come in, and the encoding they read."""

    voices: tuple[str, ...]
    packages: tuple[str, ...]
    alphabet: Alphabet
    encoding: str = "utf-8"


LANGUAGES = {
    "italian": Language(("lp_diphone", "pc_diphone"), ("festvox-italp16k", "festvox-itapc16k", "festlex-ifd"), LATIN),
    "finnish": Language(
        ("suo_fi_lj_diphone", "hy_fi_mv_diphone"),
        ("festvox-suopuhe-lj", "festvox-suopuhe-mv", "festvox-suopuhe-common"),
        FINNISH,
        "iso8859-1",
    ),
    "czech": Language(
        ("czech_ph", "czech_dita", "czech_krb", "czech_machac"),
        ("festival-czech", "festvox-czech-ph", "festvox-czech-dita", "festvox-czech-krb", "festvox-czech-machac"),
        CZECH,
        "iso8859-2",
    ),
    "catalan": Language(("upc_ca_ona_hts",), ("festival-ca", "festvox-ca-ona-hts"), LATIN, "iso8859-1"),
    "russian": Language(("msu_ru_nsh_clunits",), ("festvox-ru",), CYRILLIC),
}


def voices_of(*languages: str) -> Callable[[], list[Voice]]:
    """A maker of the voices of ``languages``."""

    def voices() -> list[Voice]:
        spoken = [LANGUAGES[name] for name in languages]
        for language in spoken:
            unpack((*PROGRAM, *language.packages))
        return [
            Voice(name, language.alphabet, partial(_say, name, language.encoding))
            for language in spoken
            for name in language.voices
        ]

    return voices


def _say(voice: str, encoding: str, text: str, speed: float) -> Speech:
    home = unpack(())
    data = f"{home / 'usr' / 'share' / 'festival'}/"

    def command(path: Path) -> list[str | Path]:
        script = path.with_suffix(".scm")
        lines = (
            f"(voice_{voice})",
            f"(Parameter.set 'Duration_Stretch {1 / speed:.2f})",
            f'(set! spoken (utt.synth (Utterance Text "{text}")))',
            f'(utt.save.wave spoken "{path}" \'riff)',
        )
        script.write_bytes("\n".join(lines).encode(encoding))
        return [home / "usr" / "bin" / "festival", "--datadir", data, "--libdir", data, "-b", script]

    return spoken_by(command, environment())
