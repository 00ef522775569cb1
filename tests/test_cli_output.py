"""No command writes its result over the vault, the device key, the configuration, or what it is to hear."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from tests.cli_helpers import voiceid
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.keys import create_device_key
from voiceid.enrolment.vault import Vault
from voiceid.output_file import check_file, write_file

PARTY = ("--relying-party", "shop.example.org", "--challenge", "A" * 32)
COMMANDS = {
    "authenticate": ("authenticate", "ada", "{recording}", *PARTY, "--output"),
    "register": ("credentials", "register", "ada", "{recording}", *PARTY, "--output"),
    "explain": ("explain", "{recording}", "--plot"),
    "backup": ("backup", "create", "--overwrite"),
    "units": ("units", "{recording}", "--resynthesize"),
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """What must not be written over, by names that end in a picture's suffix."""
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    Vault.open(vault, create_device_key(vault / "device.key"), create=True)
    config, recording = tmp_path / "config.toml", tmp_path / "command.wav"
    config.write_text(f'[paths]\nvault = "{vault}"\n')
    recording.write_bytes(b"a recording")
    places = {"key": vault / "device.key", "config": config, "recording": recording, "format": vault / "format"}
    links = {name: tmp_path / f"{name}.png" for name in places}
    for name, link in links.items():
        link.symlink_to(places[name])
    return {**links, "new": vault / "users" / "new.png"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_takes_the_place_of_nothing_that_is_needed(
    places: dict[str, Path], tmp_path: Path, command: str
) -> None:
    if command == "explain":
        pytest.importorskip("matplotlib")
    before = {name: path.read_bytes() for name, path in places.items() if path.exists()}
    arguments = [text.format(recording=tmp_path / "command.wav") for text in COMMANDS[command]]
    for name, place in places.items():
        if (command, name) == ("backup", "recording"):
            continue
        ran = voiceid(*arguments, place, "--config", tmp_path / "config.toml")
        assert ran.code is ExitCode.USAGE and "write to another file" in ran.err, name
    assert {name: path.read_bytes() for name, path in places.items() if path.exists()} == before


@pytest.mark.parametrize("command", ["authenticate", "register", "backup"])
@pytest.mark.parametrize("suffix", [".wav", ".MP3", ".png"])
def test_nothing_else_is_written_under_the_name_of_a_recording_or_picture(
    places: dict[str, Path], tmp_path: Path, command: str, suffix: str
) -> None:
    arguments = [text.format(recording=tmp_path / "command.wav") for text in COMMANDS[command]]
    out = tmp_path / f"another{suffix}"
    out.write_bytes(b"what was there")
    ran = voiceid(*arguments, out, "--config", tmp_path / "config.toml")
    assert ran.code is ExitCode.USAGE and f"{out} would hold neither sound nor a picture" in ran.err
    assert out.read_bytes() == b"what was there"


def test_neither_a_socket_nor_a_disk_is_written_to(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        bad = [tmp_path / "socket"]
        if os.geteuid() == 0:
            os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))
            bad.append(tmp_path / "disk")
        for path in bad:
            for refuse in (check_file, lambda path: write_file(path, b"x")):
                with pytest.raises(OSError, match="is a disk or a socket"):
                    refuse(path)
