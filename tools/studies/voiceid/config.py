"""A whole study in one TOML file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tools.studies.errors import StudyError
from tools.studies.study_file import AtLeast, Count, Name, Positive, Seed, read_toml, refuse_twice
from voiceid.settings import ModelSettings, Settings
from voiceid.tables import Named

DEFAULT_INDEX = "index.csv"
STEPS = ("generate", "score", "success", "transform", "authentication", "fusion", "utility", "cost")
"""All measuring steps, in their order."""


@dataclass(frozen=True, slots=True)
class People:
    """Who takes part, and what their recordings are for; no recording has two uses."""

    count: Annotated[int, AtLeast(2)] = 20
    """Those with the most speech come first."""
    enrolment: Count = 5
    """Recordings that each is enrolled from."""
    genuine: Count = 10
    """Recordings that each is verified with."""
    stolen_seconds: Positive = 120.0
    """Speech of each that the attacker has."""


@dataclass(frozen=True, slots=True)
class Program:
    """Any synthesizer with a command line: ``{text}``, ``{reference}`` (a stolen recording) and ``{output}`` (a WAV
    file) are filled in."""

    name: Name
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
    full: Annotated[int, AtLeast(0)] = 6000
    partial: Annotated[int, AtLeast(0)] = 2880
    replay: Annotated[int, AtLeast(0)] = 1000
    """Stolen recordings that are played as they are."""
    played: bool = True
    """Also play every spoofed clip through a simulated loudspeaker, room and microphone."""
    seconds: tuple[float, ...] = (2.0, 6.0)
    """Least and greatest length of a command that is cut from a recording."""
    commands: tuple[Annotated[str, Named()], ...] = ()
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
    utterances: Count = 30
    """Recordings of each person that are transformed."""
    max_seconds: Positive = 10.0
    """Longer recordings are not transformed."""
    enrolments: Count = 36
    """Times that each person is enrolled, each time from other recordings."""
    identities: tuple[str, ...] = ()
    """Identity cards to authenticate with; by default that of the agent."""
    unit_seconds: Positive = 900.0
    """Speech of people outside the study from which the voice of units is learnt."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Trials, and score combinations by the paper's protocol."""

    combinations: Annotated[int, AtLeast(40)] = 117_000
    strangers: Count = 3
    """Templates of others that every clip is tried on, besides the one it is aimed at."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Word error rates of recognisers."""

    recognisers: tuple[str, ...] = ("whisper-tiny.en", "pocketsphinx")
    utterances: Count = 20
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
    split: Literal["train", "dev", "test"] | None = None
    """Only people of this split of the training corpus take part (train, dev, test)."""
    steps: tuple[str, ...] = STEPS
    """What ``run`` does; what is left out is left out of the report."""
    seed: Seed = 0
    jobs: Count = 1
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
    attacks = study.attacks
    checks = (
        (set(study.steps) <= set(STEPS), f"steps are {list(study.steps)}; use some of {', '.join(STEPS)}"),
        (bool(attacks.systems or attacks.programs), "attacks: name at least one of systems and programs"),
        (
            len(attacks.seconds) == 2 and 1.0 <= attacks.seconds[0] <= attacks.seconds[1],
            f"attacks: seconds is {list(attacks.seconds)}; name the least, from 1 s on, and the greatest length",
        ),
    )
    for good, message in checks:
        if not good:
            raise StudyError(f"{where}: {message}")
    refuse_twice((*attacks.systems, *(program.name for program in attacks.programs)), f"{where}: attacks")
    refuse_twice(study.transforms.names, f"{where}: transforms: names")
    refuse_twice(study.transforms.identities or ("the agent's",), f"{where}: transforms: identities")
    refuse_twice(study.utility.recognisers, f"{where}: utility: recognisers")
