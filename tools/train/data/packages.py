"""Speech recorded for programs of Debian's section main: free licences, many languages and microphones.

Games and teaching programs of letters and words. The packages are unpacked into the cache; the telephone prompts are
left out, whose speakers the demonstration and the tests hear.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import soundfile

from tools.train.data.attacks.debian import unpack
from tools.train.data.corpus import Item, Split


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where the speech of one package lies, below ``/usr/share``."""

    package: str
    pattern: str
    licence: str
    voices: bool = False
    """Whether everything in one folder, or below one language, is by one person."""
    people: bool = True
    """Whether people alone speak; where not, some files are a synthesizer's."""
    split: Split = "train"
    """Of the spoofing detector; all train the identity model."""


RECORDED = (
    Recorded("fillets-ng-data-cs", "games/fillets-ng/sound/**/cs/*.ogg", "GPL-2"),
    Recorded("fillets-ng-data-nl", "games/fillets-ng/sound/**/nl/*.ogg", "GPL-2"),
    Recorded("tuxpaint-stamps-default", "tuxpaint/stamps/**/*_desc_*.ogg", "GPL-2+"),
    Recorded("ktuberling-data", "ktuberling/sounds/*/*", "GPL-2+", voices=True, split="dev"),
    Recorded("klettres-data", "klettres/*/*/*", "GPL-2+", voices=True),
    Recorded("qabcs-data", "qabcs/abcs/*/sounds/*/*", "GPL-3+", voices=True, people=False),
    Recorded("kajongg", "kajongg/voices/**/*male*/*", "GPL-2+", voices=True),
    Recorded("hedgewars-data", "games/hedgewars/Data/Sounds/voices/*/*", "GFDL-1.3", voices=True, split="dev"),
)
AUDIO = (".ogg", ".wav")
PACKAGES = tuple(recorded.package for recorded in RECORDED)
WORD_PACKAGES = tuple(recorded.package for recorded in RECORDED if recorded.voices)
"""Packages of words and letters."""
NO_PEOPLE = ("Robot",)
"""Folders of voices that no human has."""


def package_sources() -> list[tuple[Path, str, str]]:
    """(path, speaker, package) of every recording; the speaker is empty where a folder holds several people."""
    share = unpack(tuple(recorded.package for recorded in RECORDED)) / "usr" / "share"
    return [
        (path, _speaker(recorded, path.relative_to(share)), recorded.package)
        for recorded in RECORDED
        for path in sorted(share.glob(recorded.pattern))
        if path.suffix in AUDIO and path.parent.name not in NO_PEOPLE
    ]


def package_items(split: Split) -> list[Item]:
    """The recordings of people alone as rows of an index, for the spoofing detector; unreadable ones are left out."""
    chosen = {each.package: each.licence for each in RECORDED if each.people and each.split == split}
    items = []
    for path, speaker, package in package_sources():
        if package in chosen:
            try:
                seconds = soundfile.info(path).duration
            except soundfile.LibsndfileError:
                continue
            items.append(Item(path, package, speaker, "", "bonafide", "", seconds, chosen[package], ""))
    return items


def _speaker(recorded: Recorded, path: Path) -> str:
    """Folders below the pattern's first wildcard, without that which tells letters from words."""
    if not recorded.voices:
        return ""
    first = recorded.pattern.split("*", maxsplit=1)[0].count("/")
    folders = [name for name in path.parts[first:-1] if name not in ("alpha", "syllab", "sounds", "words")]
    return f"{recorded.package}-{'-'.join(folders)}"
