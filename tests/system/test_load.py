"""Many clients at once, some of them hostile, against a real daemon that hears real speech in real time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_helpers import recordings_of
from tools.load_service.__main__ import main
from tools.load_service.hostile import ATTACKS

PROC = Path("/proc/self/fd")


@pytest.mark.skipif(not PROC.exists(), reason="memory and descriptors of another process are read from /proc")
def test_forty_clients_of_whom_eight_are_hostile(
    corpus: Path, lenient_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recordings_of(corpus, ["ls121"], 6)["ls121"]
    report = tmp_path / "report.json"
    monkeypatch.setenv("VOICEID_MODELS", str(lenient_models))
    monkeypatch.setattr("sys.argv", ["x", *map(str, files), "--clients", "40", "--seconds", "5", "--json", str(report)])
    status, table = main(), json.loads(report.read_text())
    assert status == int(bool(table["faults"]))
    starved = [fault for fault in table["faults"] if "starved" in fault]  # by other programs: no fault of the daemon's
    assert table["faults"] == starved and table["unanswered"] == {} and table["hostile"] == 8
    assert table["requests"] >= 31 and table["spoken"], "everybody was answered, and one was heard"
    assert set(table["refused"]) <= {"busy", "too_many"}
    assert set(table["attacks"]) <= {attack.__name__ for attack in ATTACKS} and sum(table["attacks"].values()) >= 8
    assert table["frames"] > 100 and table["frames_dropped"] < table["frames"] / 10


def test_impossible_loads_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--clients", "1"], ["--hostile", "1"], ["--seconds", "0"]):
        monkeypatch.setattr("sys.argv", ["x", *wrong])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 2 and "at least two clients" in capsys.readouterr().err
