"""The whole way from a real sound server: PulseAudio, ALSA, PortAudio, capture, activation, utterance."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.audio_helpers import noise
from tests.pulse_helpers import PulseServer
from voiceid.audio import read_waveform
from voiceid.audio.holders import server_clients
from voiceid.types import SAMPLE_RATE, Samples

PATIENCE = 120.0
"""Seconds after which something that should have happened counts as missing."""
CAPTURE = {"lost_after": 2.0, "silent_after": 2.0, "reopen_first": 0.2, "reopen_longest": 1.0, "queue": 30.0}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PulseServer]:
    with PulseServer(tmp_path) as server:
        yield server


class Listener:
    """A process that captures."""

    def __init__(self, server: PulseServer, activation: dict[str, Any], utterances: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("listen.py")), json.dumps(CAPTURE), json.dumps(activation)],
            env={**server.environment, "UTTERANCES": str(utterances)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[dict[str, Any]] = []
        self._lines: Queue[str] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def expect(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next thing it says that is ``what``."""
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            try:
                self.said.append(json.loads(self._lines.get(timeout=left)))
            except Empty:
                break
            if what(self.said[-1]):
                return self.said[-1]
        raise AssertionError(f"never came; it said {self.said}")

    def state(self, state: str) -> dict[str, Any]:
        return self.expect(lambda said: said.get("state") == state)

    def report(self) -> dict[str, Any]:
        self.tell("report")
        return self.expect(lambda said: "frames" in said)

    def close(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE)


@pytest.fixture
def listen(server: PulseServer, tmp_path: Path) -> Iterator[Callable[..., Listener]]:
    started: list[Listener] = []

    def start(**activation: Any) -> Listener:
        started.append(Listener(server, {"kind": "voice", **activation}, tmp_path / "utterances"))
        return started[-1]

    yield start
    for listener in started:
        assert listener.close() == 0, "it must end when it is asked to, whatever happened"


def write_clip(path: Path, samples: Samples) -> Path:
    soundfile.write(path, samples, SAMPLE_RATE)
    return path


def utterance(tmp_path: Path) -> Samples:
    return np.frombuffer((tmp_path / "utterances").read_bytes(), "<i2").astype(np.float32) / 32767


def alignment(heard: Samples, played: Samples) -> float:
    """Best normalised correlation of ``played`` with any stretch of ``heard``."""
    size = len(heard) + len(played)
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(played, size)), size)
    return float(product.max() / np.sqrt(np.square(heard).sum() * np.square(played).sum()))


def test_what_is_said_is_captured_whole(
    server: PulseServer, listen: Callable[..., Listener], speech: Path, tmp_path: Path
) -> None:
    said = read_waveform(speech).samples[: 3 * SAMPLE_RATE]
    listener = listen()
    listener.state("listening")
    server.play(write_clip(tmp_path / "clip.wav", np.concatenate((said, noise(1, 1e-4)))))
    ended = listener.expect(lambda message: "ending" in message)
    assert ended["ending"] == "speech_ended" and ended["source"] == "microphone" and ended["kind"] == "voice"
    assert alignment(utterance(tmp_path), said) > 0.95
    report = listener.report()
    assert report["dropped"] == 0 and report["opens"] == 1 and report["device"]


def test_the_wake_word_belongs_to_the_utterance(
    server: PulseServer, listen: Callable[..., Listener], corpus: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pymicro_wakeword")
    with (corpus / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["set"] == "picovoice-wakewords" and r["text"] == "alexa"]
    word = read_waveform(corpus / rows[0]["path"]).samples
    command = read_waveform(sorted((corpus / "ls-test-clean" / "ls121").iterdir())[0]).samples[: 2 * SAMPLE_RATE]
    clip = np.concatenate((word, command, noise(2, 1e-4)))
    listener = listen(kind="wake_word")
    listener.state("listening")
    server.play(write_clip(tmp_path / "clip.wav", clip))
    ended = listener.expect(lambda message: "ending" in message)
    assert ended["kind"] == "wake_word" and ended["ending"] == "speech_ended"
    heard = utterance(tmp_path)
    assert alignment(heard, clip) > 0.8
    assert len(heard) > len(command) + 0.5 * SAMPLE_RATE, "more than the command alone"


def test_a_killed_sound_server_is_survived(server: PulseServer, listen: Callable[..., Listener]) -> None:
    listener = listen()
    listener.state("listening")
    server.stop(signal.SIGKILL)
    lost = listener.state("lost")
    assert "sound server" in lost["detail"]
    server.start()
    listener.state("listening")
    assert listener.report()["opens"] >= 2


def test_no_sound_server_is_waited_for(server: PulseServer, listen: Callable[..., Listener]) -> None:
    server.stop()
    listener = listen()
    listener.expect(lambda said: said.get("state") in ("no_device", "unavailable"))
    server.start()
    listener.state("listening")


def test_digital_silence_is_told_and_ends(server: PulseServer, listen: Callable[..., Listener], tmp_path: Path) -> None:
    listener = listen()
    assert "unmute" in listener.state("silent")["detail"]
    server.play(write_clip(tmp_path / "clip.wav", noise(6, 0.01)))
    listener.state("listening")


def test_suspending_gives_the_microphone_back(
    server: PulseServer, listen: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_RUNTIME_DIR", "PULSE_RUNTIME_PATH"):
        monkeypatch.setenv(variable, server.environment[variable])
    listener = listen()
    listener.state("listening")
    assert [holder.pid for holder in server_clients()] == [listener.pid]
    listener.tell("suspend")
    listener.state("suspended")
    assert server_clients() == ()
    listener.tell("resume")
    listener.state("listening")
