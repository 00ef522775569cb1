"""``evaluate.py words``: its rates, floors and page on results made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tools.evaluation.options import Options
from tools.evaluation.words import REAL, Heard, Task, floors, orders, sentences, summarise
from tools.evaluation.words_page import describe, page
from voiceid.understanding.understand import Understanding

HEADER = "path,set,speaker,text,kind,note\n"


def order(slots: dict[str, str], heard: dict[str, str] | None, number: int) -> tuple[Task, dict[str, Heard]]:
    """A real order, as both systems heard it; None is not understood, though the guess is right."""
    task = Task(Path(f"{number}.wav"), REAL, "", "", "coffee", "orderDrink", slots)
    guess = Understanding("coffee", True, "orderDrink", slots if heard is None else heard, "", 0.4)
    sure = Understanding("coffee", False) if heard is None else guess
    return task, {name: Heard("", {"coffee": (sure, guess)}) for name in ("units", "mel")}


def read(text: str, units: str, mel: str, speaker: str, taken: bool = False) -> tuple[Task, dict[str, Heard]]:
    """A sentence as units and mel have it."""
    task = Task(Path(f"{speaker}-{text}.wav"), "sentences", speaker, text)
    commands = {"coffee": (Understanding("coffee", taken), Understanding("coffee", True))}
    return task, {"units": Heard(units, commands), "mel": Heard(mel, commands), "whisper": Heard(text, {})}


@pytest.fixture
def result() -> dict[str, object]:
    latte, large = {"coffeeDrink": "latte"}, {"coffeeDrink": "latte", "size": "large"}
    heard = [order(latte, latte, i) for i in range(6)]
    heard += [order(large, latte, 6), order(latte, large, 7), order(latte, None, 8), order(large, large, 9)]
    heard += [read("one two three four", "one two three", "one two three four", f"s{i}", i == 0) for i in range(5)]
    found = {**summarise(heard), "card": {}}
    return {**found, "floors": floors(found), "recogniser": "a toy"}


def test_rates_count_whole_commands_slots_and_words(result: dict) -> None:
    coffee = result["intents"]["coffee, real orders"]["units"]
    assert (coffee["n"], coffee["speakers"]) == (10, None)
    assert (coffee["exact"]["rate"], coffee["intent"]["rate"], coffee["forced_exact"]["rate"]) == (0.7, 0.9, 0.8)
    assert coffee["not_understood"]["errors"] == 1 and coffee["spurious_slots"] == 1
    assert (coffee["slots"]["size"]["rate"], coffee["slots"]["size"]["n"]) == (0.5, 2)
    assert coffee["all_slots"]["rate"] == pytest.approx(11 / 12)
    low, high = coffee["exact"]["ci95"]
    assert low < 0.7 < high and "ci95_over" not in coffee["exact"]
    assert result["wer"]["units"]["wer"] == 0.25 and result["wer"]["whisper"]["wer"] == 0
    assert (result["wer"]["units"]["words"], result["wer"]["units"]["speakers"]) == (20, 5)
    assert result["wer"]["cost"]["points"] == 25
    assert result["false_commands"]["units"]["errors"] == 1 and result["false_commands"]["units"]["n"] == 5


def test_floors_count_only_where_they_may(result: dict) -> None:
    assert (result["floors"]["coffee_holds"], result["floors"]["wer_cost_holds"]) == (False, False)
    result["wer"]["mel"]["wer"] = 0.5
    assert floors(result)["wer_cost_holds"] is None
    assert floors({"intents": {}, "wer": {}})["coffee_holds"] is None


def test_the_page_and_the_table_tell_all_of_it(result: dict) -> None:
    text, written = describe(result), page(result)
    assert "70.00 %" in text and "is missed" in text
    assert written.startswith("# From units to words") and "| coffee, real orders | units | 70.00 %" in written
    assert (
        "#### Slots: coffee, real orders" in written
        and "Of the recogniser: a toy" in written
        and "Units cost +25.0 points" in written
    )


def test_rows_become_tasks(tmp_path: Path) -> None:
    index = tmp_path / "index.csv"
    index.write_text(
        HEADER
        + "a.wav,picovoice-commands,,,bonafide,intent orderDrink; coffeeDrink=iced mocha; size=large\n"
        + "b.wav,ls-test-clean,ls121,Hello there,bonafide,\n"
        + "c.wav,ls-test-clean,ls121,at 7,bonafide,\n",
        "utf-8",
    )
    options = Options(index)
    (one,) = orders(options, "coffee")
    assert (one.intent, one.slots, one.grammar) == (
        "orderDrink",
        {"coffeeDrink": "iced mocha", "size": "large"},
        "coffee",
    )
    assert [task.text for task in sentences(options, ["ls-test-clean"])] == ["hello there"]
