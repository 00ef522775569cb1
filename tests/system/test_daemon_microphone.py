"""The daemon at a real microphone that goes away while somebody speaks, and comes back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.pulse_helpers import PulseServer
from tests.system.daemon_helpers import OWNER, Running, enrol
from voiceid.audio import read_waveform
from voiceid.service.client import Client, RemoteError
from voiceid.service.schema import Fault
from voiceid.types import SAMPLE_RATE

PATIENCE = 120.0
"""Seconds after which something that should have happened counts as missing."""
CAPTURE = "lost_after = 2.0\nsilent_after = 60.0\nreopen_first = 0.2\nreopen_longest = 10.0\nqueue = 30.0"


class Desk:
    """A daemon that hears what is played into its microphone; Ada is enrolled, and always says the same."""

    def __init__(self, running: Running, server: PulseServer, said: Path) -> None:
        self.running, self.server, self._said = running, server, said

    def verify(self, client: Client, during_speech: Callable[[], object] = lambda: None) -> str:
        """Let Ada speak when she is listened to; the answer."""

        def hear(name: str, params: dict[str, str]) -> None:
            if params["stage"] == "listening":
                self.server.play(self._said)
            if params["stage"] == "speech":
                during_speech()

        asked = {"user": "ada", "purpose": "a test", "challenge": bytes(16)}
        return str(client.call("verify", hear, **asked)["answer"])

    def wait_for(self, client: Client, *states: str) -> None:
        """Wait for one of these states of the microphone."""
        deadline = time.monotonic() + PATIENCE
        while (state := client.call("status")["microphone"]) not in states:
            assert time.monotonic() < deadline, f"{state}, never {states}: {self.running.said()}"
            time.sleep(0.1)


@pytest.fixture
def desk(tmp_path: Path, environment: dict[str, str], clips: dict[str, list[Path]]) -> Iterator[Desk]:
    said = tmp_path / "said.wav"
    speech = np.concatenate([read_waveform(clip).samples for clip in clips[OWNER][6:8]])
    soundfile.write(said, speech[: 6 * SAMPLE_RATE], SAMPLE_RATE)
    with PulseServer(tmp_path) as server:
        running = Running(tmp_path / "daemon", settings=f"[capture]\n{CAPTURE}")
        running.activation = 'kind = "push_to_talk"'
        running.environment = {**server.environment, **environment}
        running.start()
        desk = Desk(running, server, said)
        with running.client() as client:
            enrol(client, "ada", clips[OWNER][:6])
            desk.wait_for(client, "listening")
        yield desk
        assert running.stop() == 0, running.said()
        assert "Traceback" not in running.said()


def is_well(desk: Desk, client: Client) -> None:
    """It listens, judges what is said, and has nothing to complain of."""
    desk.wait_for(client, "listening")
    assert client.call("status")["problems"] == []
    assert client.call("lockout.show", user="ada")["failures"] <= 1, "what broke off counts once at most"
    assert desk.verify(client) in ("accepted", "denied", "try_again")


def test_a_sound_server_that_is_killed_during_speech(desk: Desk) -> None:
    with desk.running.client() as client:
        with pytest.raises(RemoteError) as caught:
            desk.verify(client, lambda: desk.server.stop(signal.SIGKILL))
        assert caught.value.fault is Fault.MICROPHONE
        with pytest.raises(RemoteError) as caught:
            desk.verify(client)
        assert caught.value.fault is Fault.MICROPHONE, "and at once from then on"
        assert any("microphone" in problem for problem in client.call("status")["problems"])
        desk.server.start()
        is_well(desk, client)


def test_a_microphone_that_is_unplugged_during_speech(desk: Desk) -> None:
    with desk.running.client() as client:
        with pytest.raises(RemoteError) as caught:
            desk.verify(client, desk.server.unplug)
        assert caught.value.fault is Fault.MICROPHONE
        desk.server.plug()
        is_well(desk, client)


def test_a_machine_that_stops_during_speech(desk: Desk) -> None:
    def doze() -> None:
        desk.running.signal(signal.SIGSTOP)
        time.sleep(2.0)
        desk.running.signal(signal.SIGCONT)

    with desk.running.client() as client:
        try:
            assert desk.verify(client, doze) in ("accepted", "denied", "try_again")
        except RemoteError as error:
            assert error.fault in (Fault.MICROPHONE, Fault.NO_SPEECH), "audio is missing, and nobody spoke again"
        is_well(desk, client)
