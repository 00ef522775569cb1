"""``voiceid devices``, and what doctor says of sound: on a machine without, and on a real sound server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.audio_helpers import FakeClock, FakeSound, noise, zeros
from tests.cli_helpers import voiceid
from tests.pulse_helpers import PulseServer
from tests.vault_helpers import make_template
from voiceid.audio.meter import try_microphone
from voiceid.audio.sound_server import reachable_servers, server_sockets
from voiceid.cli.devices import meter
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.keys import create_device_key
from voiceid.doctor import Check, Status, run_checks
from voiceid.enrolment.vault import Vault
from voiceid.errors import AudioDeviceError, DeviceBusyError
from voiceid.settings import QualitySettings


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> FakeSound:
    """A sound system with two microphones, in place of PortAudio."""
    sound = FakeSound(FakeClock())
    sound.plug("Built-in")
    sound.plug("USB Mic", index=4)
    sound.restart()
    monkeypatch.setattr("voiceid.audio.microphone.PortAudioBackend", lambda: sound)
    monkeypatch.setattr("voiceid.audio.portaudio.PortAudioBackend", lambda: sound)
    return sound


def find(checks: tuple[Check, ...], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def doctor(tmp_path: Path, text: str = "") -> tuple[Check, ...]:
    config = tmp_path / "config.toml"
    config.write_text(text)
    return run_checks(config, tmp_path / "vault")


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Doctor need not load models here."""
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path))


def test_devices_are_listed_and_the_chosen_one_is_marked(sound: FakeSound) -> None:
    listed = voiceid("devices", "--json").json
    assert [d["name"] for d in listed["devices"]] == ["Built-in", "USB Mic"] and listed["chosen"] == "Built-in"
    lines = voiceid("devices", "--device", "usb").out.splitlines()
    assert [line.startswith("*") for line in lines] == [False, True] and "16000 Hz" in lines[1]


def test_the_configured_device_is_chosen_unless_another_is_named(sound: FakeSound, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[capture]\ndevice = "usb*"\n')
    assert voiceid("devices", "--json", "--config", config).json["chosen"] == "USB Mic"
    assert voiceid("devices", "--json", "--config", config, "--device", "built").json["chosen"] == "Built-in"


PARTY = ("--relying-party", "shop.example.org", "--challenge", "A" * 32)


@pytest.mark.parametrize(
    "command",
    [
        ("devices",),
        ("identify", "--microphone"),
        ("verify", "ada", "--microphone"),
        ("enroll", "bob", "--microphone"),
        ("users", "reenroll", "ada", "--microphone", "--yes"),
        ("users", "renew", "ada", "--microphone", "--again"),
        ("credentials", "register", "ada", "--microphone", *PARTY),
        ("authenticate", "ada", "--microphone", *PARTY, "-o", "/dev/null"),
    ],
)
def test_every_command_that_records_takes_the_device_of_its_option_before_that_of_the_configuration(
    sound: FakeSound, tmp_path: Path, command: tuple[str, ...]
) -> None:
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    Vault.open(vault, create_device_key(vault / "device.key"), create=True).save_template(make_template("ada"))
    config = tmp_path / "c.toml"
    config.write_text('[capture]\ndevice = "webcam"\n')
    common = (*command, "--vault", vault, "--config", config, "--json")
    configured, named = voiceid(*common), voiceid(*common, "--device", "headset")
    assert configured.code is named.code is ExitCode.DEVICE
    assert "'webcam'" in configured.error["message"] and "'headset'" in named.error["message"]


def test_no_device_or_an_unknown_name_is_an_error_that_lists_names(sound: FakeSound) -> None:
    ran = voiceid("devices", "--device", "webcam", "--json")
    assert ran.code is ExitCode.DEVICE and "USB Mic" in ran.error["message"]
    sound.unplug()
    sound.restart()
    ran = voiceid("devices", "--json")
    assert ran.code is ExitCode.DEVICE and ran.error["type"] == "NoDeviceError"


@pytest.mark.parametrize("seconds", ["0", "-1", "3600", "soon"])
def test_the_time_to_listen_is_checked(sound: FakeSound, seconds: str) -> None:
    assert voiceid("devices", "--test", "--seconds", seconds).code is ExitCode.USAGE


class PatientSound(FakeSound):
    """Delivers a second of audio at once, for a reader on the real clock."""

    def open(self, *arguments: Any, **options: Any) -> Any:
        stream = super().open(*arguments, **options)
        self.clock.run(1.5)
        return stream


def test_a_try_measures_level_and_faults() -> None:
    sound = PatientSound(FakeClock())
    microphone = sound.plug("USB Mic")
    readings: list[tuple[float, float]] = []
    result = try_microphone(
        sound, microphone, 1.0, QualitySettings(), on_level=lambda at, level: readings.append((at, level))
    )
    assert len(readings) == 10 and readings[-1][0] == pytest.approx(1.0)
    assert all(level == pytest.approx(-23, abs=0.1) for _, level in readings), "a sine of 0.1 is at -23 dBFS"
    assert result.peak_dbfs == pytest.approx(-20, abs=0.1) and result.quality.seconds == pytest.approx(1.0)
    assert not result.dropped and not result.overflows and not sound.streams[0].open


def test_a_try_of_a_muted_or_busy_microphone_says_so() -> None:
    sound = PatientSound(FakeClock(), hears=zeros)
    microphone = sound.plug("USB Mic")
    with pytest.raises(AudioDeviceError, match="unmute"):
        try_microphone(sound, microphone, 0.5, QualitySettings(), on_level=lambda at, level: None)
    sound.error = DeviceBusyError("arecord (process 7) uses it")
    with pytest.raises(DeviceBusyError, match="arecord"):
        try_microphone(sound, microphone, 0.5, QualitySettings(), on_level=lambda at, level: None)


def test_the_meter_shows_the_level() -> None:
    assert meter(-100.0).strip() == "-100.0 dBFS"
    assert meter(-30.0).count("|") == 15 and meter(0.0).count("|") == 30 and meter(3.0).count("|") == 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulseServer]:
    with PulseServer(tmp_path_factory.mktemp("pulse")) as server:
        yield server


def run(server: PulseServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = "from voiceid.cli.start import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env=server.environment, capture_output=True, text=True
    )


def test_a_real_sound_server_is_listed_tried_and_found_by_doctor(server: PulseServer, tmp_path: Path) -> None:
    listed = json.loads(run(server, "devices", "--json").stdout)
    assert listed["chosen"] in [device["name"] for device in listed["devices"]]
    clip = tmp_path / "noise.wav"
    soundfile.write(clip, noise(60, 0.1), 16_000)
    player = server.play(clip)
    result = json.loads(run(server, "devices", "--test", "--seconds", "1", "--json").stdout)
    player.kill()
    player.wait()
    assert -26 < result["peak_dbfs"] <= 0 and result["quality"]["seconds"] >= 1
    assert reachable_servers(server.environment) == ("PulseAudio",)


def test_a_silent_real_microphone_is_an_error(server: PulseServer) -> None:
    for _ in range(3):  # PortAudio finds nothing where the sound server takes its time
        ran = run(server, "devices", "--test", "--seconds", "0.5", "--json")
        if "no microphone found" not in ran.stderr:
            break
    assert ran.returncode == ExitCode.DEVICE and "digital silence" in ran.stderr


def test_doctor_finds_the_microphone_or_says_why_not(sound: FakeSound, tmp_path: Path) -> None:
    found = find(doctor(tmp_path), "microphone")
    assert found.status is Status.OK and "'Built-in'" in found.detail and "USB Mic" in found.detail
    unknown = find(doctor(tmp_path, '[capture]\ndevice = "webcam"\n'), "microphone")
    assert unknown.status is Status.WARN and "webcam" in unknown.detail and "[capture] device" in unknown.advice
    sound.unplug()
    sound.restart()
    assert find(doctor(tmp_path), "microphone").status is Status.WARN


def test_doctor_names_forbidden_sound_cards_and_the_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = Path("/dev/snd/pcmC0D0c")
    monkeypatch.setattr("voiceid.audio.permissions.capture_devices", lambda *folder: (card,))
    monkeypatch.setattr("voiceid.audio.permissions.forbidden_devices", lambda *folder: (card,))
    check = find(doctor(tmp_path), "sound access")
    assert check.status is Status.WARN and str(card) in check.detail and "usermod -aG audio" in check.advice
    monkeypatch.setattr("voiceid.audio.permissions.forbidden_devices", lambda *folder: ())
    assert find(doctor(tmp_path), "sound access").status is Status.OK


def test_doctor_tells_whether_a_sound_server_is_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("PULSE_RUNTIME_PATH", "PIPEWIRE_RUNTIME_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("voiceid.audio.permissions.capture_devices", lambda *folder: ())
    if sys.platform == "linux":
        check = find(doctor(tmp_path), "sound server")
        assert check.status is Status.WARN and "XDG_RUNTIME_DIR" in check.detail and "systemctl --user" in check.advice
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "pipewire-0"))
        listening.listen()
        check = find(doctor(tmp_path), "sound server")
    assert check.status is Status.OK and check.detail.startswith("PipeWire")


def test_the_sockets_follow_the_environment(tmp_path: Path) -> None:
    assert server_sockets({}) == {}
    found = server_sockets({"XDG_RUNTIME_DIR": "/run/user/7", "PULSE_RUNTIME_PATH": "/p"})
    assert found == {"PipeWire": Path("/run/user/7/pipewire-0"), "PulseAudio": Path("/p/native")}
    assert reachable_servers({"XDG_RUNTIME_DIR": str(tmp_path)}) == ()


def test_doctor_misses_a_wake_word_engine_only_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pymicro_wakeword", None)
    assert find(doctor(tmp_path), "wake word").status is Status.OK
    check = find(doctor(tmp_path, '[activation]\nkind = "wake_word"\n'), "wake word")
    assert check.status is Status.FAIL and "voiceid[wakeword]" in check.advice


def test_without_portaudio_doctor_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Absent:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    checks = doctor(tmp_path)
    for name in ("portaudio", "microphone"):
        assert find(checks, name).status is Status.WARN
    assert "apt install libportaudio2" in find(checks, "portaudio").advice
