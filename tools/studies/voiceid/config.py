"""A whole study in one TOML file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools.studies.errors import StudyError
from tools.studies.study_file import read_toml
from voiceid.settings import ModelSettings, Settings

DEFAULT_INDEX = "index.csv"
STEPS = ("generate", "score", "success", "transform", "authentication", "fusion", "utility", "cost")
"""All measuring steps, in their order."""


@dataclass(frozen=True, slots=True)
class People:
    """Who takes part, and what their recordings are for; no recording has two uses."""

    count: int = 20
    """Those with the most speech come first."""
    enrolment: int = 5
    """Recordings that each is enrolled from."""
    genuine: int = 10
    """Recordings that each is verified with."""
    stolen_seconds: float = 120.0
    """Speech of each that the attacker has."""


@dataclass(frozen=True, slots=True)
class Program:
    """Any synthesizer with a command line: ``{text}``, ``{reference}`` (a stolen recording) and ``{output}`` (a WAV
    file) are filled in."""

    name: str
    command: tuple[str, ...]
    kind: Literal["tts", "vc", "vocoder"] = "tts"
    """Speaks the text, converts to the reference's voice, or copies the reference."""


@dataclass(frozen=True, slots=True)
class Attacks:
    """The attack corpus; numbers are of clips over all people."""

    systems: tuple[str, ...] = (
        "world-copy",
        "griffin-lim-mel",
        "griffin-lim-linear",
        "lpc",
        "phase-vocoder-stretch",
        "kokoro",
        "kokoro-converted",
    )
    programs: tuple[Program, ...] = ()
    full: int = 6000
    partial: int = 2880
    replay: int = 1000
    """Stolen recordings that are played as they are."""
    played: bool = True
    """Also play every spoofed clip through a simulated loudspeaker, room and microphone."""
    seconds: tuple[float, ...] = (2.0, 6.0)
    """Least and greatest length of a command that is cut from a recording."""
    commands: tuple[str, ...] = ()
    """What synthesizers say; by default commands to a voice assistant."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """Voice transformation and its effect on authentication."""

    names: tuple[str, ...] = (
        "mcadams",
        "world-pitch",
        "world-formants",
        "world-pitch-formants",
        "phase-vocoder-shift",
        "units-100",
        "kokoro",
    )
    utterances: int = 30
    """Recordings of each person that are transformed."""
    max_seconds: float = 10.0
    """Longer recordings are not transformed."""
    enrolments: int = 36
    """Times that each person is enrolled, each time from other recordings."""
    identities: tuple[str, ...] = ()
    """Identity cards to authenticate with; by default that of the agent."""
    unit_seconds: float = 900.0
    """Speech of people outside the study from which the voice of units is learnt."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Trials, and score combinations by the paper's protocol."""

    combinations: int = 117_000
    strangers: int = 3
    """Templates of others that every clip is tried on, besides the one it is aimed at."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Word error rates of recognisers."""

    recognisers: tuple[str, ...] = ("whisper-tiny.en", "pocketsphinx")
    utterances: int = 20
    """Recordings of each person that are transcribed, of those that are transformed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The agent's own benchmark."""

    quick: bool = False


@dataclass(frozen=True, slots=True)
class Study:
    """One study. ``index`` is a CSV file in the corpus's format (default: ``$VOICEID_CORPUS/index.csv``)."""

    output: Path
    index: Path | None = None
    sets: tuple[str, ...] = ()
    """Only people of these sets take part."""
    split: str | None = None
    """Only people of this split of the training corpus take part (train, dev, test)."""
    steps: tuple[str, ...] = STEPS
    """What ``run`` does; what is left out is left out of the report."""
    seed: int = 0
    jobs: int = 1
    cache: bool = True
    """Remember what judges said of audio, over studies."""
    models: ModelSettings = field(default_factory=ModelSettings)
    people: People = People()
    attacks: Attacks = Attacks()
    transforms: Transforms = Transforms()
    fusion: Fusion = Fusion()
    utility: Utility = Utility()
    cost: Cost = Cost()

    @property
    def settings(self) -> Settings:
        """The agent's settings: the study's models, all else as it ships."""
        return Settings(models=self.models)

    @property
    def data(self) -> Path:
        """The index.

        Raises:
            StudyError: neither named nor in ``$VOICEID_CORPUS``.
        """
        if self.index is not None:
            return self.index
        if corpus := os.environ.get("VOICEID_CORPUS"):
            return Path(corpus) / DEFAULT_INDEX
        raise StudyError("no data: name an index in the study's file (index = ...) or set VOICEID_CORPUS")

    @property
    def transformed(self) -> Path:
        """The index of the transformed recordings.

        Raises:
            StudyError: there are none yet.
        """
        index = self.output / "transformed" / "index.csv"
        if not index.is_file():
            raise StudyError(f"{index}: no transformed recordings; make them with the step 'transform'")
        return index


def read_study(path: Path) -> Study:
    """Read a study; relative paths are relative to where the command runs.

    Raises:
        StudyError: unreadable, not TOML, unknown or mistyped keys, or impossible values.
    """
    study = read_toml(Study, path)
    _check(study, str(path))
    return study


def _check(study: Study, where: str) -> None:
    people, attacks, transforms = study.people, study.attacks, study.transforms
    checks = (
        (study.split in (None, "train", "dev", "test"), f"split is {study.split!r}; use train, dev or test"),
        (set(study.steps) <= set(STEPS), f"steps are {list(study.steps)}; use some of {', '.join(STEPS)}"),
        (study.jobs >= 1, f"jobs is {study.jobs}; at least one must work"),
        (people.count >= 2, f"people: count is {people.count}; at least two are needed"),
        (min(people.enrolment, people.genuine) >= 1, "people: enrolment and genuine must be at least 1"),
        (people.stolen_seconds > 0, f"people: stolen_seconds is {people.stolen_seconds}; the attacker needs some"),
        (min(attacks.full, attacks.partial, attacks.replay) >= 0, "attacks: numbers of clips cannot be negative"),
        (bool(attacks.systems or attacks.programs), "attacks: name at least one of systems and programs"),
        (
            len(attacks.seconds) == 2 and 1.0 <= attacks.seconds[0] <= attacks.seconds[1],
            f"attacks: seconds is {list(attacks.seconds)}; name the least, from 1 s on, and the greatest length",
        ),
        (study.fusion.strangers >= 1, "fusion: strangers must be at least 1"),
        (min(transforms.utterances, transforms.enrolments) >= 1, "transforms: numbers must be at least 1"),
        (study.fusion.combinations >= 40, "fusion: combinations must be at least 40"),
        (study.utility.utterances >= 1, "utility: utterances must be at least 1"),
    )
    for good, message in checks:
        if not good:
            raise StudyError(f"{where}: {message}")
    names = [*attacks.systems, *(program.name for program in attacks.programs)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"{where}: attacks: {twice[0]!r} is named twice")
