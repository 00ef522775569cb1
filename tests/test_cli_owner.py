"""What a person sees of judging relative to the owner, and how it comes back after a change of the spoofing model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnx
import pytest

from tests.cli_helpers import recordings_of, voiceid
from tests.test_owner import write_owner_models
from voiceid.cli.exit_codes import ExitCode
from voiceid.models.store import shipped_folder
from voiceid.scoring.owner import ENTRY

OWNER = "ls1089"


def exchange(card: Path) -> None:
    """Another model behind ``card``, of the same scores."""
    model = onnx.load(card.with_suffix(".onnx"))
    model.doc_string = "another"
    onnx.save(model, card.with_suffix(".onnx"))
    table = json.loads(card.read_text("utf-8"))
    table["sha256"] = hashlib.sha256(card.with_suffix(".onnx").read_bytes()).hexdigest()
    card.write_text(json.dumps(table), "utf-8")


def test_a_user_is_judged_relative_again_after_renewal(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = recordings_of(corpus, (OWNER,), 5)[OWNER]
    shipped = shipped_folder()
    models = write_owner_models(tmp_path / "models")
    for name in ("units.json", "units.onnx"):
        (models / name).symlink_to(shipped / name)
    monkeypatch.setenv("VOICEID_MODELS", str(models))
    config = tmp_path / "config.toml"
    config.write_text("[enrolment]\nsame_speaker_llr = -100.0\n", "utf-8")
    common = ("--vault", tmp_path / "vault", "--config", config)

    def spoofing() -> dict[str, float]:
        ran = voiceid("explain", clips[4], "--user", "ada", *common, "--json")
        found: dict[str, float] = ran.json["evidence"]["spoofing"]
        return found

    assert voiceid("enroll", "ada", *clips[:4], *common).code is ExitCode.ACCEPTED
    shown = voiceid("users", "show", "ada", *common, "--json")
    assert shown.json["not_relative"] == [] and len(shown.json["measured_by"]) == 2
    assert "relative" not in shown.err
    own = spoofing()
    assert own["shift"] != 0 and own["threshold"] == -1.0
    told = voiceid("explain", clips[4], "--user", "ada", *common)
    assert "less the owner's" in told.out and f"{own['shift']:+.2f}" in told.out

    exchange(models / "spoofing-pi.json")
    shown = voiceid("users", "show", "ada", *common, "--json")
    assert shown.json["not_relative"] == ["spoofing"] and not shown.json["renew"]
    assert "spoofing cannot judge relative to 'ada'" in shown.err and "users renew ada" in shown.err
    alike = spoofing()
    assert (alike["shift"], alike["threshold"]) == (0.0, -100.0)
    assert alike["llr"] == pytest.approx(own["llr"] + own["shift"])
    assert "less the owner's" not in voiceid("explain", clips[4], "--user", "ada", *common).out

    assert voiceid("users", "renew", "ada", *clips[:4], *common).code is ExitCode.ACCEPTED
    assert voiceid("users", "show", "ada", *common, "--json").json["not_relative"] == []
    assert spoofing() == pytest.approx(own)


def test_a_malformed_entry_stops_loading_and_names_the_card(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clip,) = recordings_of(corpus, (OWNER,), 1)[OWNER]
    models = write_owner_models(tmp_path / "models")
    path = models / "spoofing-pi.json"
    card = json.loads(path.read_text("utf-8"))
    card["parameters"][ENTRY]["share"] = 2.0
    path.write_text(json.dumps(card), "utf-8")
    monkeypatch.setenv("VOICEID_MODELS", str(models))
    ran = voiceid("enroll", "ada", clip, "--vault", tmp_path / "vault")
    assert ran.code is ExitCode.MODEL
    assert "'spoofing-pi': owner: share is 2.0" in ran.err
