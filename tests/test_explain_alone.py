"""``voiceid explain`` where nobody is named: what it can tell of a change of voice from the utterance alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.cli_helpers import recordings_of, voiceid
from voiceid.audio import read_waveform

ONE, OTHER = "ls1089", "ls121"


@pytest.fixture(scope="module")
def recordings(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One voice throughout, and a change of voice after two seconds."""
    clips = recordings_of(corpus, (ONE, OTHER), 1)
    one, other = (read_waveform(clips[name][0]).samples for name in (ONE, OTHER))
    folder = tmp_path_factory.mktemp("recordings")
    for name, samples in (("one", one[:64_000]), ("spliced", np.concatenate((one[8_000:40_000], other[8_000:40_000])))):
        soundfile.write(folder / f"{name}.wav", samples, 16_000)
    return folder / "one.wav", folder / "spliced.wav"


@pytest.fixture
def models(lenient_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models in use, to be changed."""
    folder = Path(shutil.copytree(lenient_models, tmp_path / "models"))
    monkeypatch.setenv("VOICEID_MODELS", str(folder))
    return folder


def gate(value: float) -> dict[str, Any]:
    """A gate without an enrolled speaker that lets ``value`` pass."""
    calibration = {"scale": 1.0, "offset": 0.0, "calibration_set": "none"}
    thresholds = {"balanced": {"value": value, "operating_point": "none"}}
    return {"undivided": 0.0, "calibration": calibration, "thresholds": thresholds}


def explained(models: Path, alone: dict[str, Any] | None, file: Path) -> Any:
    """What is said of ``file`` where the identity card has the gate ``alone``."""
    path = models / "identity-pi.json"
    card = json.loads(path.read_text("utf-8"))
    card["parameters"]["consistency"]["alone"] = alone
    path.write_text(json.dumps(card), "utf-8")
    return voiceid("explain", file, "--json").json


def test_a_change_of_voice_is_told_where_the_card_can(recordings: tuple[Path, Path], models: Path) -> None:
    one, spliced = recordings
    scores = [explained(models, gate(-100.0), file)["evidence"]["consistency"]["llr"] for file in (one, spliced)]
    assert scores[0] > scores[1] + 0.5
    between = gate((scores[0] + scores[1]) / 2)
    whole = explained(models, between, one)
    assert whole["outcome"] == "not_enrolled" and len(whole["reasons"]) == 1 and "no user named" in whole["reasons"][0]
    change = explained(models, between, spliced)
    assert change["outcome"] == "inconsistent" and "the speaker changes within" in change["reasons"][0]

    unknown = explained(models, None, spliced)
    assert unknown["outcome"] == "not_enrolled" and "only --user tells" in unknown["reasons"][1]


def test_what_needs_an_enrolled_speaker_is_not_shown_as_passed(recordings: tuple[Path, Path], models: Path) -> None:
    one, _ = recordings
    for alone in (None, gate(-100.0)):
        evidence = explained(models, alone, one)["evidence"]
        lacking = {name for name in ("identity", "spoofing", "consistency") if evidence[name]["passed"] is None}
        assert lacking == ({"identity", "consistency"} if alone is None else {"identity"})
        assert all(evidence[name]["compared"] == (name not in lacking) for name in ("identity", "consistency"))
        assert evidence["identity"]["llr"] > evidence["identity"]["threshold"]
        shown = {line.split()[0]: line for line in voiceid("explain", one).out.splitlines() if line.strip()}
        for name in ("identity", "consistency"):
            assert ("not compared: no user named" in shown[name]) == (name in lacking) != ("pass" in shown[name])
        assert "pass" in shown["spoofing"] and "VoiceID" not in "".join(shown.values())
