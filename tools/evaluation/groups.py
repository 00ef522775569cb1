"""What the rows of an index say about a clip, for figures by group: sex, language, duration, codec, family of attack.

What neither the index nor its notes tell is '', and no group.
"""

from __future__ import annotations

import re

from tools.evaluation.selection import system
from tools.train.data.corpus import Item

LANGUAGES = re.compile(r"\b(English|Portuguese|Spanish|French|Italian|German|Russian|Mandarin)\b")
ENGLISH = re.compile(r"ls\d+$|vctk-")
"""Speakers of corpora that hold nothing but English: LibriSpeech and LibriTTS, VCTK."""
SEX = re.compile(r"\b(female|male)\b")
SEXES = {"f": "female", "m": "male", "female": "female", "male": "male"}
DURATIONS = ((2.0, "under 2 s"), (4.0, "2 to 4 s"), (8.0, "4 to 8 s"), (float("inf"), "8 s and more"))
FAMILIES = (
    (r"Parallel WaveGAN", "Parallel WaveGAN"),
    (r"^system (adv|ppg|proposed)_gta?$", "Assem-VC"),
    (r"^system (autovc|starganv2|converted) ", "StarGANv2-VC and AutoVC"),
    (r"HGAN|HiFi-GAN", "HiFi-GAN"),
    (r"VITS", "VITS"),
    (r"^system W[GN]:|WaveNet|WaveGlow", "WaveNet and WaveGlow"),
    (r"^(flite|festival|espeak)", "engines without a network"),
)
"""Systems that end in the same kind of vocoder, or are of one maker, by what their notes say."""


def sex(item: Item) -> str:
    """'female', 'male' or ''."""
    found = SEX.search(item.note.lower())
    return SEXES.get(item.sex.strip().lower(), "") or (found[1] if found else "")


def language(item: Item) -> str:
    """The language by its name, or ''."""
    found = LANGUAGES.search(item.note)
    return item.language.strip() or (found[1] if found else "English" if ENGLISH.match(item.speaker) else "")


def duration(seconds: float) -> str:
    """The class of a duration; '' for an unknown one."""
    return next(name for end, name in DURATIONS if seconds < end) if seconds > 0 else ""


def family(item: Item) -> str:
    """The family of an attack, by default its system alone; '' for bona fide speech."""
    if item.kind == "bonafide":
        return ""
    name = system(item)
    return next((family for pattern, family in FAMILIES if re.search(pattern, name)), name)
