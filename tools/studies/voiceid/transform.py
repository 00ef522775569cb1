"""Transform recordings of every person in every way; figure 4 and table III are measured on the results.

OUTPUT/transformed/index.csv lists them in the corpus's format. Recordings that are there already are kept.
"""

from __future__ import annotations

import random
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tools.evaluation.parallel import Account, each
from tools.evaluation.selection import read_rows
from tools.studies.errors import StudyError
from tools.studies.profiles import PROFILES
from tools.studies.results import digest, is_whole, whole_file, write_json
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.generate import claim, write, write_index
from tools.studies.voiceid.people import Cast, Person, choose, seconds
from tools.studies.voiceid.tables import Table
from tools.studies.voiceid.transforms import check_names, load_transform
from tools.studies.voiceid.unit_voice import UnitVoice, learn
from tools.train.data.corpus import Item
from tools.train.data.replay import Simulated
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.models.store import find_model
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.tokenizer import Tokenizer

RAW = "raw"
"""Set of the recordings as they are."""


def shown(name: str) -> str:
    """A transformation's name in tables and figures."""
    return "untransformed" if name == RAW else name


@dataclass(frozen=True, slots=True)
class Job:
    """``source`` to be transformed into ``path`` by ``name``."""

    path: Path
    name: str
    source: Item


@dataclass(frozen=True, slots=True)
class Transforming:
    """Makes the function that transforms a recording, unless that is done, and tells the result's length in seconds."""

    units: str
    """Card of the units model."""
    voices: Path
    seed: int

    def __call__(self) -> Callable[[Job], float]:
        transforms = cache(lambda name: load_transform(name, self.load_units))

        def work(job: Job) -> float:
            if not is_whole(job.path):
                generator = np.random.default_rng([self.seed, zlib.crc32(f"{job.name}/{job.path.name}".encode())])
                samples = read_waveform(job.source.path).samples
                write(job.path, Simulated(transforms(job.name)(samples, job.source.text, generator), ""))
            return float(soundfile.info(job.path).frames) / SAMPLE_RATE

        return work

    def load_units(self, codebook: int) -> tuple[Tokenizer, UnitVoice]:
        voice = load_voice(self.voices, codebook)
        if voice is None:
            raise StudyError(f"{voice_path(self.voices, codebook)}: lost or damaged; run 'transform' again")
        return Tokenizer(find_model(self.units, "units")), voice


def step(study: Study) -> dict[str, Any]:
    """Transform what is missing.

    Raises:
        StudyError: an unknown transformation, no speech for the voice of units, or too many failures.
    """
    cast = choose(study)
    folder = study.output / "transformed"
    names = study.transforms.names
    check_names(names)
    units, unit_seconds = find_model(study.models.units, "units").card.sha256, study.transforms.unit_seconds
    claim(folder, digest(str(study.data), study.seed, units, unit_seconds, [person.name for person in cast.people]))
    transforming = Transforming(study.models.units, folder, study.seed)
    for codebook in sorted({PROFILES[name].codebook for name in names if name in PROFILES}):
        if load_voice(folder, codebook) is None:
            _learn(study, cast, codebook, voice_path(folder, codebook))
    account = Account()
    sources = [item for person in cast.people for item in tried(person, study)]
    _refuse_same_names(sources)
    jobs = [Job(folder / name / _file_name(item), name, item) for name in names for item in sources]
    done = each(transforming, jobs, jobs=study.jobs, account=account, label="transform")
    refuse_failures(account)
    rows = [_row(RAW, item, str(item.path.resolve()), seconds(item)) for item in sources]
    rows += [_row(job.name, job.source, str(job.path.relative_to(folder)), length) for job, length in done]
    index = write_index(folder / "index.csv", rows)
    result = {"sets": dict(Counter(item.set for item in read_rows(index))), "files": account.as_json()}
    write_json(study.output / "transform.json", result)
    return result


def tried(person: Person, study: Study) -> Sequence[Item]:
    """The recordings of a person that are transformed: those with a transcript first, and never so many that fewer
    than twice the enrolment's remain to enrol from."""
    candidates = [item for item in (*person.genuine, *person.stolen) if seconds(item) <= study.transforms.max_seconds]
    spare = len(person.recordings) - 2 * study.people.enrolment
    candidates.sort(key=lambda item: not item.text)
    return candidates[: max(1, min(study.transforms.utterances, spare))]


def voice_path(folder: Path, codebook: int) -> Path:
    """Where the voice of a codebook is kept."""
    return folder / f"unit-voice-{codebook}.npz"


def load_voice(folder: Path, codebook: int) -> UnitVoice | None:
    """The voice of a codebook; None where it is missing or damaged."""
    try:
        with np.load(voice_path(folder, codebook), allow_pickle=False) as file:
            return UnitVoice(codebook, file["weights"], file["bias"], file["durations"])
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None


def _learn(study: Study, cast: Cast, codebook: int, path: Path) -> None:
    tokenizer = Tokenizer(find_model(study.models.units, "units"))
    speech = _background(cast.others, study.transforms.unit_seconds, study.seed)
    pairs = ((tokenizer.encode(samples, codebook), samples) for samples in speech)
    try:
        voice = learn(pairs, codebook)
    except ValueError as error:
        raise StudyError(
            f"{study.data}: {error}: transformations through units need bona fide recordings of people who do not "
            "take part; lower people.count or leave them out of transforms.names"
        ) from error
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, weights=voice.weights, bias=voice.bias, durations=voice.durations)


def _background(items: Sequence[Item], wanted: float, seed: int) -> Iterator[Samples]:
    """Prepared recordings in a seeded order until ``wanted`` seconds are reached; unreadable ones are passed over."""
    heard = 0.0
    order = list(items)
    random.Random(seed).shuffle(order)
    for item in order:
        if heard >= wanted:
            return
        try:
            samples = prepare(read_waveform(item.path)).samples
        except AudioError:
            continue
        if len(samples) >= SAMPLE_RATE:
            heard += len(samples) / SAMPLE_RATE
            yield samples


def _refuse_same_names(items: Sequence[Item]) -> None:
    """Raises StudyError where the transformed file of one recording would pass for another's."""
    taken: dict[str, Item] = {}
    for item in items:
        if (other := taken.setdefault(_file_name(item), item)) is not item:
            raise StudyError(f"{other.path} and {item.path} would both become {_file_name(item)}; rename one")


def _file_name(item: Item) -> str:
    return f"{item.speaker}-{item.path.parent.name}-{item.path.stem}.flac"


def _row(name: str, item: Item, path: str, length: float) -> dict[str, str]:
    kind = "bonafide" if name == RAW else "vc"
    values = (path, name, item.speaker, item.text, kind, str(item.path.resolve()), f"{length:.3f}", name)
    return dict(zip(("path", "set", "speaker", "text", "kind", "pair", "seconds", "note"), values, strict=True))


def tables(result: dict[str, Any]) -> list[Table]:
    """Recordings by transformation."""
    files = result["files"]
    caption = f"{sum(files['dropped'].values())} left out as unfit, {files['failed']} failed."
    rows = [[shown(name), str(count)] for name, count in result["sets"].items()]
    return [Table("Transformed recordings", caption, ("transformation", "recordings"), rows)]
