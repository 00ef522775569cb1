"""Grammar files: what they may say, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.train.recognizer.sentences import draw
from voiceid.errors import GrammarError
from voiceid.understanding.grammar import load_grammar, read_grammar, shipped_grammars
from voiceid.understanding.graph import build_graph
from voiceid.understanding.pattern import NOTHING, AnyOrder, Choice, Series, Slot, Word

DOORS = """
name = "doors"
[phrases]
ask = "please | can you"
[slots]
door = { front = ["front door"], garage = ["garage [door]"] }
[intents]
open = ["[<ask>] open the {door}"]
lock = ["lock & (the {door})"]
"""


def test_a_pattern_means_what_it_writes() -> None:
    grammar = read_grammar(DOORS, "doors.toml")
    ask = Choice((Word("please"), Series((Word("can"), Word("you")))))
    opening = grammar.intents["open"]
    assert isinstance(opening, Series) and opening.parts[0] == Choice((ask, NOTHING))
    assert opening.parts[1:3] == (Word("open"), Word("the"))
    door = opening.parts[3]
    assert isinstance(door, Slot) and [value.value for value in door.values] == ["front", "garage"]
    locking = grammar.intents["lock"]
    assert locking == AnyOrder((Word("lock"), Series((Word("the"), door))))


def test_shipped_grammars_are_sound_and_can_be_drawn_from() -> None:
    assert shipped_grammars() == ["banking", "coffee", "lights", "timers"]
    rng = np.random.default_rng(0)
    for name in shipped_grammars():
        grammar = load_grammar(name)
        assert grammar.name == name and grammar.description
        drawn = [draw(grammar, rng) for _ in range(200)]
        assert {command.intent for command in drawn} == set(grammar.intents)
        assert all(command.text for command in drawn)


def test_a_drawn_coffee_order_names_its_slots() -> None:
    rng = np.random.default_rng(1)
    for command in (draw(load_grammar("coffee"), rng) for _ in range(100)):
        assert command.intent == "orderDrink" and "coffeeDrink" in command.slots
        assert all(value in command.text for value in command.slots.values())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "doors"', "name = ", "no TOML"),
        ('name = "doors"', "", "missing key 'name'"),
        ('name = "doors"', 'name = "doors"\ncolour = 1', "unknown key 'colour'"),
        ("{door}", "{gate}", r"intents.open names the slot {gate}, which is not under \[slots\]"),
        ("<ask>", "<beg>", r"intents.open names the phrase <beg>, which is not under \[phrases\]"),
        ("[<ask>]", "[<ask>", r"intents.open has a '\[' without its '\]'"),
        ("[<ask>]", "<ask>]", r"intents.open has a '\]' that nothing opened"),
        ("[<ask>] open", "[<ask>] Open 3", "cannot be read at 'Open 3"),
        ("[<ask>]", "[]", "has nothing where words are expected"),
        ("please | can you", "please | <ask>", "phrases.ask holds itself, by way of ask -> ask"),
        ("please | can you", "", "phrases.ask is empty"),
        ('["front door"]', '["{door}"]', "names the slot {door} inside of a slot"),
        ('["front door"]', "[]", "slots.door: front must be a list of at least one pattern"),
        ('["front door"]', "3", "slots.door: front must be a list of at least one pattern"),
        ('lock = ["lock & (the {door})"]', "lock = []", "intents.lock has no sentences"),
        ("lock &", "a & b & c & d & e & lock &", "joins 7 parts by &; at most 5"),
        ("open = ", '"o-pen" = ', "intents: name 'o-pen' may only hold letters"),
        ("[<ask>] open the", "[" * 30 + "a" + "]" * 30, "nests deeper than 20"),
    ],
)
def test_a_malformed_grammar_is_told_where_and_how(old: str, new: str, message: str) -> None:
    assert old in DOORS
    with pytest.raises(GrammarError, match=message) as told:
        read_grammar(DOORS.replace(old, new, 1), "doors.toml")
    assert str(told.value).startswith("doors.toml")


def test_a_grammar_without_intents_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GrammarError, match="no intents"):
        read_grammar('name = "x"\n[intents]', "x.toml")
    with pytest.raises(GrammarError, match="no grammar 'tea'; shipped are banking, coffee, lights, timers"):
        load_grammar("tea")
    with pytest.raises(GrammarError, match="not a readable grammar"):
        load_grammar(str(tmp_path / "tea.toml"))
    (tmp_path / "tea.toml").write_bytes(b"\xff")
    with pytest.raises(GrammarError, match="not a readable grammar"):
        load_grammar(str(tmp_path / "tea.toml"))


def _phrases(count: int, each: str) -> str:
    """Phrases p0 to p<count>, each of the next."""
    rows = "\n".join(f'p{n} = "{each.format(n + 1)}"' for n in range(count))
    return f'name = "x"\n[phrases]\n{rows}\np{count} = "word"\n[intents]\nopen = ["<p0>"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_phrases(18, "<p{0}> <p{0}>"), "over 20000 words"),
        (_phrases(40, "<p{0}>"), "nest deeper than 20"),
        ("a = " + "[" * 5000, "no TOML"),
        ("a = 9" + "9" * 5000, "no TOML"),
        ("a." * 20_000 + "b = 1", "over 100 dots"),
        (DOORS.replace("front =", r'"\u001b[2J" ='), "cannot be printed"),
    ],
)
def test_what_would_take_forever_or_clear_the_screen_is_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        read_grammar(text, "x.toml")


def test_silence_and_endless_alternatives_are_refused() -> None:
    silent = read_grammar('name = "x"\n[intents]\na = ["[yes]"]', "x.toml")
    with pytest.raises(GrammarError, match="'a' may be said by silence"):
        build_graph(silent)
    words = " | ".join(["abcdefghij" * 4] * 40)
    large = read_grammar(
        f'name = "x"\n[intents]\na = ["({words}) & ({words}) & ({words}) & ({words}) & ({words})"]', "x"
    )
    with pytest.raises(GrammarError, match="over 50000 letters"):
        build_graph(large)
