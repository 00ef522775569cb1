"""What every daemon of the system tests uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_helpers import recordings_of
from tests.system.daemon_helpers import OWNER, STRANGER, Running, samples, say


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, list[Path]]:
    """Recordings of three to nine seconds by either speaker."""
    return recordings_of(corpus, (OWNER, STRANGER), 12)


@pytest.fixture(scope="module")
def environment(lenient_models: Path) -> dict[str, str]:
    """Every daemon here uses the lenient cards."""
    return {"VOICEID_MODELS": str(lenient_models)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Running]:
    """One daemon for the tests that leave it as it was."""
    running = Running(tmp_path_factory.mktemp("daemon"), environment=environment)
    running.recording.write_bytes(b"")
    running.start()
    yield running
    assert running.stop() == 0, running.said()


@pytest.fixture(scope="module")
def enrolled(daemon: Running, clips: dict[str, list[Path]]) -> Running:
    """The daemon with Ada enrolled."""
    feedback = []
    with daemon.client() as client:
        client.hand_over(samples(clips[OWNER][:6]))
        result = client.call("enrol", lambda name, params: feedback.append((name, params)), user="ada", audio=True)
    assert result["user"] == "ada" and result["utterance_count"] >= 3 and result["net_speech"] >= 8
    assert [name for name, _ in feedback] == ["enrol.progress"] * 6
    assert feedback[-1][1]["progress"] == 1
    return daemon


@pytest.fixture(scope="module")
def command(enrolled: Running, clips: dict[str, list[Path]]) -> Path:
    """A recording of Ada that is accepted."""
    with enrolled.client() as client:
        for clip in clips[OWNER][6:]:
            if say(client, clip, user="ada")["answer"] == "accepted":
                return clip
    pytest.fail("none of six recordings of the owner was accepted")
