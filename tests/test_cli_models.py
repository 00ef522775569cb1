"""``voiceid models`` on the shipped cards, and on damaged copies of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli_helpers import need_shipped_models, voiceid
from tests.words_helpers import write_recogniser
from voiceid.cli.exit_codes import ExitCode
from voiceid.models.card import ROLES
from voiceid.models.store import shipped_folder
from voiceid.settings import load_settings


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped models that may be damaged."""
    need_shipped_models()
    folder = tmp_path / "models"
    shutil.copytree(shipped_folder(), folder)
    monkeypatch.setenv("VOICEID_MODELS", str(folder))
    return folder


def edit(card: Path, **changes: Any) -> None:
    card.write_text(json.dumps(json.loads(card.read_text()) | changes))


def test_list_shows_every_role_in_use(models: Path) -> None:
    rows = voiceid("models", "list", "--json").json
    assert {row["card"]["role"] for row in rows if row["in_use"]} == set(ROLES)
    assert all(row["disk_bytes"] > 100 for row in rows)
    assert "identity-pi" in voiceid("models", "list").out


def test_the_error_rate_is_shown_with_its_condition(models: Path) -> None:
    edit(models / "liveness.json", metrics={"n": 3, "development": {"3 s": {"eer": 0.0425}, "whole": {"eer": 0.01}}})
    assert "4.2% (simulated replay, development, 3 s)" in voiceid("models", "list").out
    edit(models / "liveness.json", metrics={"eer": 0.5})
    assert "50.0% (simulated replay)" in voiceid("models", "list").out


def test_sound_models_verify(models: Path) -> None:
    ran = voiceid("models", "verify", "--json")
    assert ran.code is ExitCode.ACCEPTED and all(row["ok"] for row in ran.json) and len(ran.json) >= len(ROLES)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "liveness.onnx").unlink(), "cannot be read"),
        (lambda f: (f / "liveness.onnx").write_bytes((f / "liveness.onnx").read_bytes()[:-9]), "differs from the card"),
        (lambda f: edit(f / "liveness.json", sha256="0" * 64), "differs from the card"),
        (lambda f: edit(f / "liveness.json", outputs={"verdict": ["batch", 1]}), "the card says"),
        (lambda f: edit(f / "liveness.json", colour="red"), "unknown key 'colour'"),
        (lambda f: edit(f / "liveness.json", sample_rate="fast"), "expected int"),
        (lambda f: edit(f / "liveness.json", role="units"), "it is set for liveness"),
        (lambda f: edit(f / "liveness.json", schema=99), "newer"),
        (lambda f: (f / "liveness.json").write_text("{"), "not a readable model card"),
        (lambda f: (f / "liveness.json").unlink(), "no such model card"),
    ],
)
def test_damaged_models_stop_start_up(models: Path, damage: Any, message: str, speech: Path) -> None:
    damage(models)
    verified = voiceid("models", "verify", "--json")
    assert verified.code is ExitCode.MODEL
    assert [message in row["problem"] for row in verified.json if not row["ok"]] == [True]
    for command in (("config", "check"), ("explain", speech)):
        ran = voiceid(*command, "--json")
        assert ran.code is ExitCode.MODEL and ran.out == "" and "liveness" in ran.error["message"]


def test_config_check_tells_a_wrong_configuration_from_a_wrong_model(models: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for text, code in (
        ("", ExitCode.ACCEPTED),
        ("[models]\nthreads = 0\n", ExitCode.SETTINGS),
        ("[models]\nunits = 'liveness'\n", ExitCode.MODEL),
    ):
        config.write_text(text)
        for command in (("config", "check"), ("models", "verify")):
            assert voiceid(*command, "--config", config).code is code


def test_use_writes_the_configuration(models: Path, tmp_path: Path) -> None:
    config, other = tmp_path / "config.toml", tmp_path / "other"
    other.mkdir()
    for suffix in ("json", "onnx"):
        shutil.copy(models / f"liveness.{suffix}", other / f"liveness.{suffix}")
    ran = voiceid("models", "use", other / "liveness.json", "--config", config, "--json")
    assert ran.code is ExitCode.ACCEPTED and ran.json["role"] == "liveness"
    assert load_settings(config).models.liveness == str(other / "liveness.json")
    assert voiceid("models", "use", "liveness", "--config", config).code is ExitCode.ACCEPTED
    assert load_settings(config).models.liveness == "liveness"


def test_use_of_the_model_in_use_says_that_nothing_changes_and_writes_nothing(models: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for card in ("identity-pi", models / "identity-pi.json"):
        ran = voiceid("models", "use", card, "--config", config)
        assert ran.code is ExitCode.ACCEPTED and "in use already; nothing changes" in ran.out and ran.err == ""
        assert not config.exists()
    assert voiceid("models", "use", "liveness", "--config", config, "--json").json["changed"] is False
    config.write_text("[models]\nidentity = '/gone/card.json'\n")
    again = voiceid("models", "use", "identity-pi", "--config", config, "--json")
    assert again.json["changed"] is True and load_settings(config).models.identity == "identity-pi"


def test_reset_is_the_way_back_from_the_guard_and_from_another_card(models: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    options = ("--config", config, "--json")
    needless = voiceid("models", "reset", "guard", *options)
    assert needless.code is ExitCode.ACCEPTED and needless.json["changed"] is False and not config.exists()
    config.write_text("# mine\n[models]\nthreads = 2\n")
    assert voiceid("models", "use", "guard", *options).json["changed"] and load_settings(config).models.guard == "guard"
    assert voiceid("models", "reset", "guard", *options).json["changed"] is True
    assert config.read_text() == "# mine\n[models]\nthreads = 2\n"

    config.write_text("[models]\nidentity = '/gone/card.json'\n")
    back = voiceid("models", "reset", "identity", "--config", config)
    assert back.code is ExitCode.ACCEPTED and "identity: identity-pi" in back.out and "users renew" in back.err
    assert load_settings(config).models.identity == "identity-pi"
    assert "nothing changes" in voiceid("models", "reset", "identity", "--config", config).out
    assert voiceid("models", "reset", "threads", "--config", config).code is ExitCode.USAGE


def test_reset_refuses_a_shipped_card_that_does_not_verify(models: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[models]\nliveness = '/gone/card.json'\n")
    edit(models / "liveness.json", sha256="0" * 64)
    assert voiceid("models", "reset", "liveness", "--config", config).code is ExitCode.MODEL
    assert load_settings(config).models.liveness == "/gone/card.json"


def test_use_refuses_what_does_not_verify(models: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    edit(models / "liveness.json", sha256="0" * 64)
    assert voiceid("models", "use", "liveness", "--config", config).code is ExitCode.MODEL
    assert voiceid("models", "use", "no-such-card", "--config", config).code is ExitCode.MODEL
    assert not config.exists()


def test_a_recogniser_of_words_is_for_services_and_fills_no_role(models: Path, tmp_path: Path) -> None:
    config, card = tmp_path / "config.toml", write_recogniser(tmp_path / "services")
    ran = voiceid("models", "use", card, "--config", config, "--json")
    assert ran.code is ExitCode.MODEL and "a card for words, which no device uses" in ran.error["message"]
    assert not config.exists() and voiceid("models", "verify", card).code is ExitCode.ACCEPTED


def test_no_models_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path))
    ran = voiceid("models", "list", "--json")
    assert ran.code is ExitCode.MODEL and ran.error["message"].startswith("no model cards found")
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path / "none"))
    for command in (("models", "list"), ("models", "verify"), ("config", "check")):
        ran = voiceid(*command, "--json")
        assert ran.code is ExitCode.MODEL and "VOICEID_MODELS names" in ran.error["message"]
