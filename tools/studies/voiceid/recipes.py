"""The plan of the attack corpus: one recipe a clip, the same for the same people, options and seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm
from pathlib import Path

from tools.studies.voiceid.config import Attacks
from tools.studies.voiceid.people import Person
from tools.studies.voiceid.systems import kinds_of
from tools.train.data.attacks.texts import OPENINGS, REQUESTS

GENUINE, GENUINE_ROOM = "genuine", "genuine-room"
FULL, PARTIAL, REPLAY = "full", "partial", "replay"
PLAYED = "-played"
"""Ends the name of the set of spoofed clips that went through a loudspeaker."""
LIVE = (GENUINE, GENUINE_ROOM)
PARTIAL_KIND = "partial"
STRANGERS = "strangers"
"""Genuine commands, tried on templates of other people."""
LABELS = {
    "genuine": "genuine commands",
    "genuine-room": "genuine commands in a simulated room",
    STRANGERS: "genuine commands of other people",
    "full": "fully spoofed",
    "full-played": "fully spoofed, through a loudspeaker",
    "partial": "partially spoofed",
    "partial-played": "partially spoofed, through a loudspeaker",
    "replay": "replayed recordings",
}
"""Sets in the order of tables; all but those of live speech ought to be refused."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One clip of the corpus: ``path`` is written from ``source`` (and, spliced, ``rest``), as ``set`` says.

    genuine: a command cut from a recording; genuine-room: the same in a simulated room; full: by ``system``, aimed at
    ``speaker``; partial: the opening of a full clip, then another person; replay: a stolen recording through a
    loudspeaker; full-played, partial-played: those clips through a loudspeaker.
    """

    path: Path
    set: str
    kind: str
    speaker: str
    system: str
    source: Path
    rest: Path | None = None
    text: str = ""


def plan(people: Sequence[Person], attacks: Attacks, folder: Path, seed: int) -> list[list[Recipe]]:
    """Recipes in stages: every stage is made of recordings and of clips of the stages before it."""
    chance = random.Random(seed)
    genuine = [
        Recipe(folder / GENUINE / _name(person.name, i), GENUINE, "bonafide", person.name, "", item.path)
        for person in people
        for i, item in enumerate(person.genuine)
    ]
    full = _full(people, attacks, folder, chance)
    replay = _replay(people, attacks.replay, folder, chance)
    rooms = [_through(recipe, GENUINE_ROOM, "simulated room", folder) for recipe in genuine]
    partial = _partial(people, full, attacks.partial, folder, chance)
    played = [
        _through(recipe, recipe.set + PLAYED, recipe.system, folder) for recipe in (*full, *partial) if attacks.played
    ]
    return [genuine + full + replay, rooms + partial, played]


def _full(people: Sequence[Person], attacks: Attacks, folder: Path, chance: random.Random) -> list[Recipe]:
    """Fully spoofed commands: people in turn and systems in turn, each person by all systems equally often."""
    kinds = kinds_of(attacks)
    systems = list(kinds)
    commands = attacks.commands or tuple(f"{opening} {request}." for opening, request in product(OPENINGS, REQUESTS))
    recipes = []
    for i in range(attacks.full):
        person, system = people[i % len(people)], systems[(i + i // lcm(len(people), len(systems))) % len(systems)]
        text = "" if kinds[system] == "vocoder" else chance.choice(commands)
        path = folder / FULL / _name(person.name, i)
        source = chance.choice(person.stolen).path
        recipes.append(Recipe(path, FULL, kinds[system], person.name, system, source, text=text))
    return recipes


def _partial(
    people: Sequence[Person], full: Sequence[Recipe], count: int, folder: Path, chance: random.Random
) -> list[Recipe]:
    """Partially spoofed commands: the opening of a fully spoofed one, the rest in another participant's voice."""
    aimed = {person.name: [recipe for recipe in full if recipe.speaker == person.name] for person in people}
    recipes = []
    for i in range(count if full else 0):
        person = people[i % len(people)]
        if not aimed[person.name]:
            continue
        opening = chance.choice(aimed[person.name])
        other = chance.choice([one for one in people if one is not person])
        path = folder / PARTIAL / _name(person.name, i)
        rest = chance.choice(other.stolen).path
        recipes.append(Recipe(path, PARTIAL, PARTIAL_KIND, person.name, opening.system, opening.path, rest))
    return recipes


def _replay(people: Sequence[Person], count: int, folder: Path, chance: random.Random) -> list[Recipe]:
    recipes = []
    for i in range(count):
        person = people[i % len(people)]
        path = folder / REPLAY / _name(person.name, i)
        source = chance.choice(person.stolen).path
        recipes.append(Recipe(path, REPLAY, REPLAY, person.name, "", source))
    return recipes


def _through(recipe: Recipe, name: str, system: str, folder: Path) -> Recipe:
    """The same clip through a simulated scene, as another set."""
    path = folder / name / recipe.path.name
    return replace(recipe, path=path, set=name, system=system, source=recipe.path, rest=None)


def _name(person: str, number: int) -> str:
    return f"{person}-{number:05d}.flac"
