"""``voiceid understand`` on units that spell what was said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_helpers import voiceid
from tests.vault_helpers import Party
from tests.words_helpers import CODEBOOK, HASH, spell, write_recogniser
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.envelope import SpeechUnits
from voiceid.units.packing import pack
from voiceid.units.privacy import PrivacyProfile


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recogniser(tmp_path_factory.mktemp("models"))


def units_file(folder: Path, text: str, **changes: object) -> Path:
    """What ``voiceid units --json`` would write of ``text``."""
    table = {"codebook": CODEBOOK, "codebook_hash": HASH.hex(), "merged": list(spell(text).units)} | changes
    path = folder / "units.json"
    path.write_text(json.dumps(table), "utf-8")
    return path


def test_an_order_is_understood(model: Path, tmp_path: Path) -> None:
    file = units_file(tmp_path, "can i get a triple shot latte with some milk")
    ran = voiceid("understand", file, "--grammar", "coffee", "--model", model, "--json")
    assert ran.code is ExitCode.ACCEPTED
    assert (ran.json["understood"], ran.json["intent"], ran.json["grammar"]) == (True, "orderDrink", "coffee")
    assert ran.json["slots"] == {"numberOfShots": "triple shot", "coffeeDrink": "latte", "milkAmount": "some milk"}
    assert ran.json["confidence"] > 0.9
    told = voiceid("understand", file, "--grammar", "coffee", "--model", model).out
    assert told.startswith("orderDrink (confidence") and "coffeeDrink: latte" in told


def test_anything_else_is_not(model: Path, tmp_path: Path) -> None:
    file = units_file(tmp_path, "there was a king who had three daughters and no sons")
    ran = voiceid("understand", file, "--grammar", "coffee", "--model", model, "--json")
    assert ran.code is ExitCode.NOT_UNDERSTOOD and ran.code == 17
    assert (ran.json["understood"], ran.json["intent"], ran.json["slots"]) == (False, None, {})
    assert voiceid("understand", file, "--grammar", "coffee", "--model", model).out.startswith("not understood")


def test_without_a_grammar_it_is_free_text(model: Path, tmp_path: Path) -> None:
    ran = voiceid("understand", units_file(tmp_path, "open the door"), "--model", model, "--json")
    assert ran.code is ExitCode.ACCEPTED and ran.json == {"text": "open the door"}


def test_a_grammar_of_ones_own(model: Path, tmp_path: Path) -> None:
    grammar = tmp_path / "doors.toml"
    grammar.write_text('name = "doors"\n[intents]\nopen = ["open the door"]\nlock = ["lock the door"]\n', "utf-8")
    file = units_file(tmp_path, "lock the door")
    ran = voiceid("understand", file, "--grammar", grammar, "--model", model, "--json")
    assert (ran.json["intent"], ran.json["slots"]) == ("lock", {})
    grammar.write_text('name = "doors"\n[intents]\nopen = ["open [the door"]\n', "utf-8")
    wrong = voiceid("understand", file, "--grammar", grammar, "--model", model, "--json")
    assert wrong.code is ExitCode.GRAMMAR and wrong.error["type"] == "GrammarError"
    assert "intents.open has a '[' without its ']'" in wrong.error["message"]
    unknown = voiceid("understand", file, "--grammar", "tea", "--model", model, "--json")
    assert unknown.code is ExitCode.GRAMMAR and "shipped are banking, coffee" in unknown.error["message"]


def test_an_envelope_is_read(model: Path, tmp_path: Path) -> None:
    profile = PrivacyProfile(CODEBOOK)
    speech = SpeechUnits(pack(spell("brew a mocha")), HASH, profile)
    party = Party(tmp_path / "vault")
    file = tmp_path / "order.envelope"
    file.write_bytes(party.authenticate(units=speech).to_bytes())
    ran = voiceid("understand", file, "--grammar", "coffee", "--model", model, "--json")
    assert ran.code is ExitCode.ACCEPTED and ran.json["slots"] == {"coffeeDrink": "mocha"}
    file.write_bytes(party.authenticate(units=None).to_bytes())
    silent = voiceid("understand", file, "--model", model, "--json")
    assert silent.code is ExitCode.ENVELOPE and "without speech" in silent.error["message"]


def test_units_of_another_codebook_are_refused(model: Path, tmp_path: Path) -> None:
    file = units_file(tmp_path, "brew a mocha", codebook_hash="11" * 32)
    ran = voiceid("understand", file, "--grammar", "coffee", "--model", model, "--json")
    assert ran.code is ExitCode.CODEBOOK and ran.error["type"] == "CodebookError"
    assert "train a model on these" in ran.error["message"]


@pytest.mark.parametrize(
    "changes", [{"merged": [1, 1]}, {"merged": [77]}, {"merged": None}, {"codebook": 7}, {"codebook_hash": "zz"}]
)
def test_malformed_units_are_told(model: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    ran = voiceid("understand", units_file(tmp_path, "brew", **changes), "--model", model, "--json")
    assert ran.code is ExitCode.ENVELOPE and "neither an envelope nor JSON" in ran.error["message"]


def test_what_is_not_there(model: Path, tmp_path: Path) -> None:
    assert voiceid("understand", tmp_path / "none.json", "--model", model).code is ExitCode.SYSTEM
    file = units_file(tmp_path, "brew a mocha")
    missing = voiceid("understand", file, "--model", tmp_path / "none.json", "--json")
    assert missing.code is ExitCode.MODEL and "no such model card" in missing.error["message"]
    file.write_bytes(b"\x00garbage")
    assert voiceid("understand", file, "--model", model).code is ExitCode.ENVELOPE
