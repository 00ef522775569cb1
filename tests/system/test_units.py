"""The systemd units: sound by systemd's own judgement, hardened, and of one mind with the package about names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from voiceid.credentials.keys import SYSTEMD_CREDENTIAL
from voiceid.service import sockets
from voiceid.settings import load_settings

CHECKOUT = Path(__file__).resolve().parents[2]
UNITS = CHECKOUT / "systemd"
PROGRAM = "/opt/voiceid/bin/voiceid"
MOST_EXPOSURE = 2.0

systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def analyse(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as installed, with the program they start."""
    program = tmp_path / "voiceid"
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for unit in folder.rglob("*.service"):
        unit.write_text(unit.read_text("utf-8").replace(PROGRAM, str(program)), "utf-8")
    return folder


def drop_in(folder: Path, name: str) -> None:
    into = folder / "voiceid.service.d"
    into.mkdir()
    shutil.copy(folder / "drop-ins" / name, into)


def exposure(unit: Path) -> float:
    run = analyse("security", "--offline=true", "--no-pager", unit)
    assert run.returncode == 0, run.stderr
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", run.stdout)
    assert found, run.stdout
    return float(found[1])


@systemd
def test_the_system_units_are_sound(installed):
    run = analyse("verify", *installed.glob("*.service"), *installed.glob("*.socket"))
    assert (run.returncode, run.stderr) == (0, "")


@systemd
def test_the_units_of_the_session_are_sound(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    run = analyse("--user", "verify", *sorted((installed / "user").iterdir()))
    assert (run.returncode, run.stderr) == (0, "")


@systemd
def test_an_unknown_key_is_found(installed):
    unit = installed / "voiceid.service"
    unit.write_text(unit.read_text("utf-8").replace("WatchdogSec=", "WatchdogSeconds="), "utf-8")
    assert "WatchdogSeconds" in analyse("verify", unit).stderr


@systemd
@pytest.mark.parametrize("name", ["voiceid.service", "voiceid-device-key.service"])
def test_the_services_are_hardened(installed, name):
    assert exposure(installed / name) <= MOST_EXPOSURE


@systemd
@pytest.mark.parametrize("name", sorted(path.name for path in (UNITS / "drop-ins").iterdir()))
def test_a_drop_in_is_sound_and_leaves_the_service_hardened(installed, name):
    drop_in(installed, name)
    assert analyse("verify", installed / "voiceid.service").stderr == ""
    assert exposure(installed / "voiceid.service") <= MOST_EXPOSURE


def values(unit: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", (UNITS / unit).read_text("utf-8"), re.MULTILINE)


def test_the_device_key_has_one_name():
    assert values("voiceid.service", "LoadCredential") == [SYSTEMD_CREDENTIAL]
    (encrypted,) = values("drop-ins/encrypted-key.conf", "LoadCredentialEncrypted")
    assert encrypted == f"{SYSTEMD_CREDENTIAL}:/etc/credstore.encrypted/{SYSTEMD_CREDENTIAL}"
    made = (UNITS / "voiceid-device-key.service").read_text("utf-8")
    assert f"mv .{SYSTEMD_CREDENTIAL} {SYSTEMD_CREDENTIAL};" in made
    assert values("voiceid-device-key.service", "WorkingDirectory") == ["/etc/credstore"]


def test_no_key_is_made_where_one_or_a_vault_exists():
    paths = load_settings(CHECKOUT / "deploy" / "examples" / "config.toml").paths
    vault = paths.vault
    assert paths.device_key == Path("/etc/credstore") / SYSTEMD_CREDENTIAL
    assert set(values("voiceid-device-key.service", "ConditionPathExists")) == {
        f"!/etc/credstore/{SYSTEMD_CREDENTIAL}",
        f"!/etc/credstore.encrypted/{SYSTEMD_CREDENTIAL}",
        f"!{vault / 'format'}",
    }
    assert vault.is_relative_to(Path("/var/lib") / values("voiceid.service", "StateDirectory")[0])


def test_the_sockets_are_where_clients_look():
    assert values("voiceid.socket", "ListenStream") == [str(sockets.SYSTEM_SOCKET)]
    assert values("user/voiceid.socket", "ListenStream") == [f"%t/voiceid/{sockets.SOCKET_NAME}"]
