"""The benchmark of the daemon: a real one, real speech in real time, and every figure that it announces."""

from __future__ import annotations

import contextlib
import io
import os
import select
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import numpy as np
import pytest

from tests.cli_helpers import need_shipped_models, recordings_of, voiceid
from voiceid.audio.file_source import FileSource
from voiceid.audio.vad import FRAME
from voiceid.benchmark import service
from voiceid.benchmark.feeder import HUSH, Feeder
from voiceid.benchmark.served import Served, Usage
from voiceid.cli.exit_codes import ExitCode
from voiceid.errors import ServiceError
from voiceid.settings import ModelSettings


@pytest.fixture(scope="module")
def report(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """One quick run with a soak of a few seconds."""
    files = recordings_of(corpus, ["ls121"], 6)["ls121"]
    ran = voiceid("benchmark", "--service", *files, "--quick", "--minutes", "0.2", "--speed", "2", "--json")
    assert ran.code is ExitCode.ACCEPTED, ran.err
    return ran.json


def test_times_are_those_of_speech_in_real_time(report: dict) -> None:
    answering = report["answering"]
    assert answering["commands"] == sum(answering["answers"].values()) == 3
    for name in ("to_first_event", "to_endpoint", "to_answer"):
        spread = answering[name]
        assert 0 < spread["p50_ms"] <= spread["p95_ms"] <= spread["most_ms"]
    assert answering["to_endpoint"]["p50_ms"] > 500, "the silence that ends an utterance is waited for"
    assert report["frames"] > 9 / 0.03, "three commands of three seconds"
    assert report["frames_dropped"] == 0


def test_processor_and_memory_are_those_of_the_daemon(report: dict) -> None:
    assert 0 < report["answering"]["cpu_ms"] < 10_000
    assert 0 <= report["listening"]["cpu_share"] < 1
    assert 50 < report["listening"]["rss_mib"] <= report["peak_rss_mib"] < 400
    assert report["claims_per_second"] > 0


def test_a_soak_has_its_slopes(report: dict) -> None:
    soak = report["soak"]
    assert soak["minutes"] == 0.2 and soak["speed"] == 2 and soak["commands"] == sum(soak["answers"].values()) >= 1
    assert len(soak["rss_mib"]) == 10 and min(soak["rss_mib"]) > 50
    assert soak["descriptors_last"] == soak["descriptors_first"] and soak["rss_growth_mib"] >= 0


def test_a_soak_shorter_than_a_second_has_a_first_and_a_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((Usage(0.0, 1.0, 0.0, 100.0, 100.0, 9), Usage(0.5, 1.25, 0.0, 101.0, 101.0, 9)))
    served = create_autospec(Served, instance=True)
    served.usage.side_effect = lambda: next(moments)
    monkeypatch.setattr(service, "speak", lambda *_: service.Spoken("accepted", 0, 0, 0, 0, 0))
    soak = service.run_soak(served, SimpleNamespace(speed=100.0), None, [np.zeros(FRAME, np.float32)], 0.01)
    assert (soak.answers, soak.rss_mib[0], soak.rss_mib[-1], soak.cpu_share) == ({"accepted": 1}, 100.0, 101.0, 0.5)


def test_the_machine_is_named(report: dict) -> None:
    assert report["machine"]["cpu"] in report["caveat"] and "not from a sound card" in report["caveat"]


def test_the_report_for_people(report: dict) -> None:
    from rich.console import Console

    from voiceid.benchmark.service import ServiceReport
    from voiceid.cli.benchmark_service import render
    from voiceid.errors import SettingsError
    from voiceid.tables import from_table

    console = Console(record=True, width=200, file=io.StringIO())
    console.print(*render(from_table(ServiceReport, report, where="report", error=SettingsError)))
    text = console.export_text()
    assert "endpoint to answer" in text and "claims and releases a second" in text and "MiB an hour" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--minutes", "1"), "needs --service"),
        (("--service", "--speed", "2"), "needs --minutes"),
        (("--service", "--compare", "x.json"), "cannot be combined"),
        (("--service", "--reference-onnx", "x.onnx"), "cannot be combined"),
    ],
)
def test_options_that_do_not_go_together(options: tuple[str, ...], says: str) -> None:
    ran = voiceid("benchmark", *options)
    assert ran.code is ExitCode.USAGE and says in ran.err


def test_what_is_said_comes_out_of_the_pipe_and_noise_around_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    tone = np.full(10 * FRAME + 5, 0.5, np.float32)
    with Feeder(pipe) as feeder:
        frames = FileSource(pipe).frames()
        before = next(frames).samples
        feeder.say(tone)
        heard = np.concatenate([next(frames).samples for _ in range(60)])
        assert feeder.said(60) > 0
    assert 0 < np.abs(before).max() < 10 * HUSH
    assert abs(int((heard > 0.4).sum()) - len(tone)) == 0
    assert feeder.dropped == 0 and feeder.frames >= 61


def test_audio_that_nobody_reads_is_lost_and_counted(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    with Feeder(pipe) as feeder, pipe.open("rb"):
        while not feeder.dropped:
            feeder.say(np.zeros(FRAME, np.float32))
            feeder.said(60)
    assert 1.9 < feeder.waiting < 2.2


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path / "none"))
    with pytest.raises(ServiceError, match="which is no folder"), Served(tmp_path, ModelSettings(), activation="voice"):
        pytest.fail("it started")


def test_the_daemon_does_not_outlive_who_measures(tmp_path: Path) -> None:
    need_shipped_models()
    script = (
        "import os, sys; from pathlib import Path; from voiceid.benchmark.served import Served\n"
        "from voiceid.settings import ModelSettings; folder = Path(sys.argv[1]); os.mkfifo(folder / 'microphone')\n"
        "served = Served(folder, ModelSettings(), activation='voice').__enter__()\n"
        "print(served.process.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    with contextlib.suppress(ProcessLookupError):  # it is gone already
        ended = os.pidfd_open(int(ran.stdout))
        assert select.select([ended], [], [], 120)[0], "it goes on"
        os.close(ended)
    assert "stopping" in (tmp_path / "log").read_text()
