"""A whole study in one TOML file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tools.studies.errors import StudyError
from tools.studies.reidentification.emitted import EMBEDDING, REPRESENTATIONS
from tools.studies.reidentification.reidentify import PldaOptions
from tools.studies.reidentification.synthetic import Population
from tools.studies.study_file import AtLeast, Count, Name, Seed, read_toml, refuse_twice
from voiceid.settings import ModelSettings
from voiceid.tables import Between


@dataclass(frozen=True, slots=True)
class Preprocess:
    """As the options of ``preprocess``; ``skip_audio``: the recordings are prepared already."""

    skip_audio: bool = False
    silence_threshold: Annotated[float, Between(-200, 0)] = -30.0
    min_silence: Annotated[int, AtLeast(0)] = 500
    remove_all: bool = False
    split: bool = False


@dataclass(frozen=True, slots=True)
class Synthetic:
    """People who do not exist, instead of recordings or embeddings."""

    speakers: Count
    population: Population = field(default_factory=Population)


@dataclass(frozen=True, slots=True)
class FromCorpus:
    """As the options of ``corpus``: recordings of ``$VOICEID_CORPUS``, laid out in the study's folder."""

    sets: tuple[str, ...]
    per_speaker: Count = 10
    speakers: Count | None = None
    seconds: Annotated[float, AtLeast(0.1)] | None = None
    seed: Seed = 0


@dataclass(frozen=True, slots=True)
class Risk:
    """As the options of ``risk``: what sharing each representation of the recordings risks."""

    known: Count
    unknown: Count
    representations: tuple[str, ...] = (EMBEDDING, *REPRESENTATIONS)
    overlap: Annotated[int, AtLeast(0)] = 5
    runs: Count = 10


@dataclass(frozen=True, slots=True)
class Sweep:
    """As the options of ``sweep``: one design."""

    experiment: Name
    known: tuple[Count, ...]
    unknown: tuple[Count, ...]
    overlap: Annotated[int, AtLeast(0)] = 5
    full_overlap: bool = False
    train_tasks: str = ""
    test_tasks: tuple[str, ...] = ("",)
    within: bool = False
    runs: Count = 50
    num_files: Count = 1


@dataclass(frozen=True, slots=True)
class Workers:
    """As the options of the same names."""

    scheduler: str | None = None
    workers: int = 1
    memory: str = "2GiB"


@dataclass(frozen=True, slots=True)
class Study:
    """One of ``recordings``, ``embeddings``, ``corpus`` and ``synthetic`` is where the study starts; results lie in
    ``output``.

    ``data`` is the layout of the folder, ``dataset`` the table of its tasks.
    """

    output: Path
    sweeps: tuple[Sweep, ...] = ()
    risk: Risk | None = None
    corpus: tuple[FromCorpus, ...] = ()
    recordings: Path | None = None
    embeddings: Path | None = None
    synthetic: Synthetic | None = None
    data: str = "generic"
    dataset: Path | None = None
    card: str = ModelSettings().identity
    ecapa: Path | None = None
    preprocess: Preprocess = field(default_factory=Preprocess)
    plda: PldaOptions = field(default_factory=PldaOptions)
    workers: Workers = field(default_factory=Workers)


def read_study(path: Path) -> Study:
    """Read a study; relative folders are relative to where the command runs.

    Raises:
        StudyError: unreadable, not TOML, unknown or mistyped keys, not one start, no sweep, or two of one name.
    """
    study = read_toml(Study, path)
    starts = [name for name in ("recordings", "embeddings", "corpus", "synthetic") if getattr(study, name)]
    if len(starts) != 1:
        raise StudyError(
            f"{path}: starts from {' and '.join(starts) or 'nothing'}; name recordings, embeddings, corpus or synthetic"
        )
    if study.risk is not None and starts[0] not in ("recordings", "corpus"):
        raise StudyError(f"{path}: risk needs recordings, not {starts[0]}")
    names = [sweep.experiment for sweep in study.sweeps]
    if (not names and study.risk is None) or len(set(names)) < len(names):
        raise StudyError(f"{path}: sweeps {names}; name at least one (or risk), each with an experiment of its own")
    for one in study.sweeps:
        check_sweep(one, str(path))
    if study.risk is not None:
        check_representations(study.risk.representations, f"{path}: risk")
    return study


def check_sweep(sweep: Sweep, where: str) -> None:
    """Raises StudyError for a design without sizes or tasks, or with one named twice."""
    for name in ("known", "unknown", "test_tasks"):
        refuse_twice(tuple(map(str, getattr(sweep, name))), f"{where}: sweep {sweep.experiment!r}, {name}")


def check_representations(names: tuple[str, ...], where: str) -> None:
    """Raises StudyError for an unknown representation, or one named twice."""
    known = (EMBEDDING, *REPRESENTATIONS)
    if unknown := [name for name in names if name not in known]:
        raise StudyError(f"{where}: no representation {unknown[0]!r}; use some of {', '.join(known)}")
    refuse_twice(names, f"{where}: representations")
