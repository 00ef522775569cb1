"""Make the attack corpus: genuine, fully and partially spoofed commands and replays, and an index of them.

OUTPUT/attacks/index.csv has the corpus's format, so that ``tools/evaluate.py`` can measure it too. Clips that are there
already are kept.
"""

from __future__ import annotations

import csv
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tools.evaluation.audio import UnfitError
from tools.evaluation.deciding import splice
from tools.evaluation.parallel import Account, each
from tools.evaluation.selection import read_rows, system
from tools.studies.errors import StudyError
from tools.studies.results import digest, is_whole, whole_file, write_json
from tools.studies.voiceid.config import Attacks, Study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.people import Cast, Person, choose, seconds
from tools.studies.voiceid.recipes import FULL, GENUINE, LABELS, PARTIAL, PLAYED, REPLAY, Recipe, plan
from tools.studies.voiceid.systems import Order, check_systems, command_from, load_system
from tools.studies.voiceid.tables import Table
from tools.train.data.corpus import Item
from tools.train.data.replay import Bank, Simulated, load_bank, simulate_live, simulate_replay
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE, Samples

COLUMNS = ("path", "set", "speaker", "text", "kind", "pair", "seconds", "class", "note")
ENROLMENT = "enrolment"
"""Set of the recordings that people are enrolled from."""
PEAK = 0.98


@dataclass(frozen=True, slots=True)
class Making:
    """Makes the function that makes a clip, unless it is there, and tells its length in seconds and its scene."""

    attacks: Attacks
    data: Path
    seed: int

    def __call__(self) -> Callable[[Recipe], tuple[float, str]]:
        systems = cache(lambda name: load_system(name, self.attacks))
        bank = cache(lambda: load_bank(read_rows(self.data), "test"))

        def make(recipe: Recipe) -> tuple[float, str]:
            if not is_whole(recipe.path):
                random = np.random.default_rng([self.seed, zlib.crc32(f"{recipe.set}/{recipe.path.name}".encode())])
                write(recipe.path, self._clip(recipe, systems, bank, random))
            with soundfile.SoundFile(recipe.path) as file:
                return file.frames / SAMPLE_RATE, file.comment

        return make

    def _clip(
        self,
        recipe: Recipe,
        systems: Callable[[str], Callable[[Order, np.random.Generator], Samples]],
        bank: Callable[[], Bank],
        random: np.random.Generator,
    ) -> Simulated:
        if recipe.set == GENUINE:
            return Simulated(command_from(recipe.source, self.attacks.seconds, random), "")
        if recipe.set == FULL:
            return Simulated(systems(recipe.system)(Order(recipe.text, recipe.source), random), "")
        if recipe.set == REPLAY:
            return simulate_replay(command_from(recipe.source, self.attacks.seconds, random), bank(), random)
        if not recipe.source.exists():
            raise UnfitError("made of a clip that could not be made")
        first = read_waveform(recipe.source).samples
        if recipe.set == PARTIAL and recipe.rest is not None:
            return Simulated(splice(first, read_waveform(recipe.rest).samples, random), "")
        simulate = simulate_live if recipe.kind == "bonafide" else simulate_replay
        return simulate(first, bank(), random)


def write(path: Path, clip: Simulated) -> None:
    """Write a clip as FLAC, its scene as a comment; what is too loud is scaled down."""
    peak = float(np.abs(clip.samples).max(initial=0.0))
    if not 0 < peak < np.inf:
        raise UnfitError("the system gave silence or numbers that are not finite")
    with (
        whole_file(path) as temporary,
        soundfile.SoundFile(temporary, "w", SAMPLE_RATE, 1, format="FLAC", subtype="PCM_16") as file,
    ):
        if clip.scene:
            file.comment = clip.scene
        file.write(clip.samples * np.float32(min(1.0, PEAK / peak)))


def generate(study: Study, cast: Cast) -> tuple[Path, Account]:
    """Make what is missing of the corpus; returns its index and the account of clips.

    Raises:
        StudyError: a system cannot be used, other options made the clips that are there, or too many clips failed.
    """
    check_systems(study.attacks)
    folder = study.output / "attacks"
    planned = plan(cast.people, study.attacks, folder, study.seed)
    made_as = [(r.set, r.path.name, r.system, r.text, r.source.name) for recipes in planned for r in recipes]
    claim(folder, digest(study.attacks, study.people, study.seed, made_as))
    account, rows = Account(), [_enrolled(item, person) for person in cast.people for item in person.enrolment]
    making = Making(study.attacks, study.data, study.seed)
    for recipes in planned:
        made = each(making, recipes, jobs=study.jobs, account=account, label="make")
        rows += [_row(recipe, length, scene, folder) for recipe, (length, scene) in made]
    refuse_failures(account)
    return write_index(folder / "index.csv", rows), account


def claim(folder: Path, options: str) -> None:
    """Mark ``folder`` as made with ``options``: what was made with others must not pass for this study's.

    Raises:
        StudyError: it is marked with others.
    """
    mark = folder / "options"
    if mark.exists() and mark.read_text("utf-8") != options:
        raise StudyError(
            f"{folder}: its clips were made with other people, options, models or seed; remove it, or choose another "
            "output"
        )
    with whole_file(mark) as temporary:
        temporary.write_text(options, "utf-8")


def _enrolled(item: Item, person: Person) -> dict[str, str]:
    return {"path": str(item.path.resolve()), "set": ENROLMENT, "speaker": person.name, "kind": "bonafide"}


def _row(recipe: Recipe, length: float, scene: str, folder: Path) -> dict[str, str]:
    return {
        "path": str(recipe.path.relative_to(folder)),
        "set": recipe.set,
        "speaker": recipe.speaker,
        "text": recipe.text,
        "kind": recipe.kind,
        "pair": str(
            recipe.source.relative_to(folder) if recipe.source.is_relative_to(folder) else recipe.source.resolve()
        ),
        "seconds": f"{length:.3f}",
        "note": "; ".join(filter(None, (_system(recipe, scene), scene))),
    }


def _system(recipe: Recipe, scene: str) -> str:
    """What made the clip; of a replay the loudspeaker, of a played spoof "SYSTEM by LOUDSPEAKER"."""
    loudspeaker = scene.split("/")[0]
    if recipe.set == REPLAY:
        return loudspeaker
    return f"{recipe.system} by {loudspeaker}" if recipe.set.endswith(PLAYED) else recipe.system


def write_index(path: Path, rows: Iterable[dict[str, str]]) -> Path:
    """An index in the corpus's format; paths are relative to its folder, or absolute."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def step(study: Study) -> dict[str, Any]:
    """What the corpus holds: people, clips by set and by system, and what became of the rest."""
    cast = choose(study)
    index, account = generate(study, cast)
    items = read_rows(index)
    result = {
        "people": [person.name for person in cast.people],
        "stolen_seconds": sum(seconds(item) for person in cast.people for item in person.stolen) / len(cast.people),
        "sets": dict(Counter(item.set for item in items)),
        "systems": dict(Counter(system(item) for item in items if item.set == FULL)),
        "files": account.as_json(),
    }
    write_json(study.output / "generate.json", result)
    return result


def tables(result: dict[str, Any]) -> list[Table]:
    """Clips by set, and fully spoofed ones by system."""
    files = result["files"]
    dropped = sum(files["dropped"].values())
    caption = (
        f"{len(result['people'])} people, of each {result['stolen_seconds']:.0f} s of stolen speech on average; "
        f"{files['chosen']} clips planned, {dropped} left out as unfit, {files['failed']} failed."
    )
    rows = [[LABELS.get(name, name), str(count)] for name, count in result["sets"].items()]
    rows += [[f"fully spoofed by {name}", str(count)] for name, count in sorted(result["systems"].items())]
    return [Table("The attack corpus", caption, ("set", "clips"), rows)]
