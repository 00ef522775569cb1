"""Recording: without a sound card a clear error; with a PulseAudio null sink, real audio in real time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.cli_helpers import voiceid
from tests.pulse_helpers import PulseServer
from voiceid.activation.endpoint import TAIL
from voiceid.audio import read_waveform
from voiceid.audio.device import Microphone
from voiceid.audio.microphone import END_SILENCE
from voiceid.audio.portaudio import PortAudioBackend
from voiceid.cli.exit_codes import ExitCode

RECORD = """
import json, subprocess, sys
from voiceid.audio.microphone import choose_microphone, list_microphones, record_utterance
from voiceid.audio import prepare
from voiceid.errors import AudioDeviceError
names = [m.name for m in list_microphones()]
heard = []
def progress(seconds, rms):
    if not heard and len(sys.argv) > 2:
        subprocess.Popen(["paplay", "--device=vmic", sys.argv[2]])
    heard.append(seconds)
try:
    waveform = record_utterance(max_seconds=float(sys.argv[1]), on_progress=progress)
    speech = prepare(waveform).quality.net_speech
    print(json.dumps([names, waveform.source, waveform.seconds, speech, len(heard)]))
except AudioDeviceError as error:
    print(json.dumps([names, str(error)]))
"""


@pytest.fixture(scope="module")
def null_sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment of a PulseAudio server of our own whose default source plays back what is sent to its sink."""
    with PulseServer(tmp_path_factory.mktemp("pulse")) as server:
        yield server.environment


def record(environment: dict[str, str], seconds: float, *clips: Path) -> list[Any]:
    """Record for at most ``seconds`` in a process of its own that plays ``clips`` once it records."""
    command = [sys.executable, "-c", RECORD, str(seconds), *map(str, clips)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: list[Any] = json.loads(ran.stdout)
    return result


@pytest.fixture
def no_sound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home and runtime folder without any sound server."""
    for variable in ("HOME", "XDG_RUNTIME_DIR", "PULSE_RUNTIME_PATH"):
        monkeypatch.setenv(variable, str(tmp_path))
    from voiceid.audio.microphone import list_microphones
    from voiceid.errors import AudioDeviceError

    try:
        if list_microphones():
            pytest.skip("this machine has a microphone")
    except AudioDeviceError:
        pass


@pytest.mark.usefixtures("no_sound")
@pytest.mark.parametrize("command", [("verify", "ada"), ("identify",), ("enroll", "ada")])
def test_without_a_microphone_the_error_says_what_to_do(tmp_path: Path, command: tuple[str, ...]) -> None:
    ran = voiceid(*command, "--microphone", "--json", "--vault", tmp_path / "v")
    assert ran.code is ExitCode.DEVICE and ran.out == ""
    assert "audio file" in ran.error["message"]
    assert not (tmp_path / "v").exists()


def test_without_portaudio_the_package_is_named() -> None:
    script = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'sounddevice':\n            raise OSError('PortAudio library not found')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from voiceid.cli.main import app\napp(['identify', '--microphone'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == ExitCode.DEVICE and "apt install libportaudio2" in ran.stderr


def test_every_command_takes_the_microphone_that_the_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PortAudioBackend, "microphones", lambda _: (Microphone(0, "Built-in", 1, 16_000, True),))
    config = tmp_path / "config.toml"
    config.write_text(f'[capture]\ndevice = "USB*"\n[paths]\nvault = "{tmp_path / "vault"}"\n')
    options = ("--microphone", "--config", config, "--vault", tmp_path / "vault")
    party = ("--relying-party", "shop.example.org", "--challenge", "A" * 32)
    for command in (
        ("verify", "ada"),
        ("identify",),
        ("authenticate", "ada", *party, "-o", tmp_path / "envelope"),
        ("credentials", "register", "ada", *party),
        ("enroll", "ada"),
        ("users", "reenroll", "ada"),
    ):
        ran = voiceid(*command, *options)
        assert ran.code is ExitCode.DEVICE and "no microphone is named like 'USB*'" in ran.err, command
    assert voiceid("verify", "ada", *options, "--device", "built").code is ExitCode.VAULT


def test_files_and_microphone_exclude_each_other(tmp_path: Path) -> None:
    assert voiceid("verify", "ada", tmp_path / "x.wav", "--microphone").code is ExitCode.USAGE
    assert voiceid("verify", "ada").code is ExitCode.USAGE


def test_recording_stops_after_the_speech(null_sink: dict[str, str], speech: Path, tmp_path: Path) -> None:
    waveform = read_waveform(speech)
    clip = tmp_path / "clip.wav"
    soundfile.write(clip, waveform.samples[: 2 * 16_000], 16_000)
    names, source, seconds, net_speech, blocks = record(null_sink, 12, clip)
    assert names and source == "microphone"
    assert 2 < seconds < 8 and 0.8 < net_speech < 2.2
    assert blocks == pytest.approx((seconds - TAIL + END_SILENCE) * 10, abs=2)


def test_a_muted_microphone_is_an_error(null_sink: dict[str, str]) -> None:
    _, message = record(null_sink, 0.5)
    assert "digital silence" in str(message) and "unmute" in str(message)


def test_speech_from_the_microphone_is_signed_as_such(
    null_sink: dict[str, str], corpus: Path, lenient_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(lenient_models))
    found = sorted((corpus / "opus" / "ls-test-clean" / "ls1089").glob("*.opus"))
    clips = [file for file in found if 3.5 < soundfile.info(file).duration < 9]
    vault = tmp_path / "vault"
    party = ("--relying-party", "shop.example.org", "--challenge", "A" * 32, "--vault", vault)
    assert voiceid("enroll", "ada", *clips[:5], "--vault", vault).code is ExitCode.ACCEPTED
    accepted = (c for c in clips[5:] if voiceid("credentials", "register", "ada", c, *party).code is ExitCode.ACCEPTED)
    spoken = tmp_path / "spoken.wav"
    soundfile.write(spoken, read_waveform(next(accepted)).samples, 16_000)
    arguments = ["authenticate", "ada", "--microphone", *map(str, party), "-o", str(tmp_path / "envelope"), "--json"]
    agent = subprocess.Popen(
        [sys.executable, "-c", "from voiceid.cli.start import main; main()", *arguments],
        env={**null_sink, "VOICEID_MODELS": str(lenient_models)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stderr is not None
    played = None
    for line in agent.stderr:
        if "speak now" in line:
            played = subprocess.Popen(["paplay", "--device=vmic", spoken], env=null_sink)
    decision = json.loads(agent.communicate()[0])
    assert played is not None and played.wait(10) == 0
    assert decision["outcome"] == "accepted" and decision["source"] == "microphone"
    assert (tmp_path / "envelope").stat().st_size == decision["envelope_bytes"]
