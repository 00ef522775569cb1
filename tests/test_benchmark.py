"""The benchmark: every figure it announces, measured on real speech by the shipped models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli_helpers import need_shipped_models, voiceid, write_nan
from voiceid.benchmark.machine import describe_machine, reset_peak, resident_mib
from voiceid.benchmark.speech import collect_speech, crop, find_speech
from voiceid.cli.exit_codes import ExitCode
from voiceid.errors import AudioError


def test_resident_memory_grows_with_what_is_held() -> None:
    before = resident_mib()
    # Larger than what the allocator keeps of memory freed by other tests, so that it must come from the system.
    held = np.ones(256 << 20, np.uint8)
    after = resident_mib()
    assert 240 < after[0] - before[0] < 272 and after[1] >= after[0] - 1
    assert held.any()
    del held
    reset_peak()
    now, peak = resident_mib()
    assert peak < now + 2 or not Path("/proc/self/clear_refs").exists()


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine.cpu and machine.cores >= 1 and machine.python.startswith("3.")
    assert machine.is_pi_4 == ("Raspberry Pi 4" in machine.cpu)


def test_speech_is_joined_repeated_and_cut_to_length(speech: Path) -> None:
    collected = collect_speech([speech], 10)
    assert len(collected) == 160_000 and collected.dtype == np.float32
    assert np.abs(collected).reshape(-1, 8000).max(axis=1).min() > 0.01
    assert crop(collected, 3.0).seconds == 3.0


def test_no_speech_and_no_files_are_clear_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import soundfile

    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(16_000, np.float32), 16_000)
    with pytest.raises(AudioError, match=r"no speech in .*silence\.wav"):
        collect_speech([silence], 1)
    monkeypatch.delenv("VOICEID_CORPUS", raising=False)
    with pytest.raises(AudioError, match="name one or more recordings"):
        find_speech([])
    ran = voiceid("benchmark", "--quick", "--json")
    assert ran.code is ExitCode.AUDIO and "VOICEID_CORPUS" in ran.error["message"]
    assert voiceid("benchmark", write_nan(tmp_path / "nan.wav")).code is ExitCode.AUDIO


def test_what_is_no_report_cannot_be_compared_with(tmp_path: Path, speech: Path) -> None:
    for text in ("", "{}", "[1]", '{"schema": 99}', '{"schema": 1, "runs": [{}]}'):
        (tmp_path / "old.json").write_text(text)
        ran = voiceid("benchmark", speech, "--compare", tmp_path / "old.json")
        assert ran.code is ExitCode.SETTINGS and "old.json" in ran.err


@pytest.fixture(scope="module")
def report(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One quick run; its JSON."""
    need_shipped_models()
    ran = voiceid("benchmark", speech, "--quick", "--json")
    assert ran.code is ExitCode.ACCEPTED, ran.err
    path = tmp_path_factory.mktemp("benchmark") / "report.json"
    path.write_text(ran.out)
    return path


def test_every_stage_has_its_cost_and_features(report: Path) -> None:
    table = json.loads(report.read_text())
    assert {(run["seconds"], run["threads"]) for run in table["runs"]} >= {(1.0, 1), (3.0, 1)}
    for run in table["runs"]:
        stages = run["stages"]
        assert list(stages) == ["prepare", "identity", "spoofing", "liveness", "consistency", "fusion", "units"]
        assert all(stage["cost"]["p95_ms"] >= stage["cost"]["p50_ms"] > 0 for stage in stages.values())
        assert stages["liveness"]["features"] == 225 and stages["fusion"]["features"] == 3
        assert stages["identity"]["features"] % 64 == 0 and stages["spoofing"]["features"] >= 16_000
        assert run["total"]["rtf"] == pytest.approx(run["total"]["p50_ms"] / run["seconds"] / 1000)
        assert run["total"]["cpu_ms"] > 0


def test_memory_size_and_cold_start_are_those_of_the_agent_alone(report: Path) -> None:
    table = json.loads(report.read_text())
    assert {model["role"] for model in table["models"]} == {"identity", "spoofing", "liveness", "fusion", "units"}
    assert all(model["disk_bytes"] > 100 for model in table["models"])
    assert all(model["running_rss_mib"] >= model["added_rss_mib"] >= 0 for model in table["models"])
    assert sum(model["running_rss_mib"] for model in table["models"]) > 1
    cold = table["cold_start"]
    parts = cold["start_ms"] + cold["load_ms"] + cold["first_decision_ms"]
    assert cold["process_ms"] == pytest.approx(parts)
    assert 30 < cold["peak_rss_mib"] < 250


def test_the_budget_is_set_against_the_machine(report: Path) -> None:
    table = json.loads(report.read_text())
    assert "700 ms" in table["budget"] and table["machine"]["cpu"] in table["budget"]
    assert ("not the Raspberry Pi 4B" in table["budget"]) == ("Raspberry Pi 4" not in table["machine"]["cpu"])


def test_comparison_and_reference_in_the_text(report: Path, speech: Path) -> None:
    from voiceid.models.store import shipped_folder

    reference = shipped_folder() / "liveness.onnx"
    ran = voiceid("benchmark", speech, "--quick", "--compare", report, "--reference-onnx", reference)
    assert ran.code is ExitCode.ACCEPTED, ran.err
    assert "compared with before" in ran.out and "3s/1t/p50_ms" in ran.out
    assert "liveness.onnx alone" in ran.out and "cold start" in ran.out and "real-time factor" in ran.out


def test_a_reference_that_is_no_model(speech: Path, report: Path) -> None:
    ran = voiceid("benchmark", speech, "--quick", "--reference-onnx", report)
    assert ran.code is ExitCode.MODEL and report.name in ran.err


def test_missing_models_are_a_model_error(speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path))
    ran = voiceid("benchmark", speech, "--quick", "--json")
    assert ran.code is ExitCode.MODEL and "no such model card" in ran.error["message"]
