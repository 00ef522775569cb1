"""Doctor: each check finds what it is for."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli_helpers import voiceid
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.keys import create_device_key
from voiceid.doctor import Check, Status, run_checks
from voiceid.enrolment.vault import Vault
from voiceid.service.client import Client


def find(checks: tuple[Check, ...], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir(mode=0o700)
    Vault.open(folder, create_device_key(folder / "device.key"), create=True)
    return folder


def test_a_sound_vault_passes(vault: Path) -> None:
    checks = run_checks(None, vault)
    assert {find(checks, name).status for name in ("vault", "device key", "records", "python", "clock")} == {Status.OK}
    assert find(checks, "records").detail == "0 users"


def test_no_vault_yet_is_fine(tmp_path: Path) -> None:
    checks = run_checks(None, tmp_path / "none" / "vault")
    assert {find(checks, name).status for name in ("vault", "device key", "records")} == {Status.OK}
    assert not (tmp_path / "none").exists()


def test_a_vault_open_to_others_fails_with_the_command_to_run(vault: Path) -> None:
    vault.chmod(0o755)
    for _ in range(2):  # which does not mend it in passing, as a daemon refuses such a vault
        check = find(run_checks(None, vault), "vault")
        assert check.status is Status.FAIL and "0755" in check.detail and check.advice == f"chmod 700 {vault}"


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/vault"])
def test_a_vault_that_is_no_folder_fails_and_nobody_is_told_to_change_its_mode(place: str) -> None:
    check = find(run_checks(None, Path(place)), "vault")
    assert check.status is Status.FAIL and "no folder" in check.detail and "chmod" not in check.advice


@pytest.mark.parametrize(
    ("microphone", "problems", "status"),
    [
        ("listening", [], Status.OK),
        ("file", [], Status.OK),
        ("no_device", ["microphone: no_device (none)"], Status.WARN),
        ("silent", None, Status.WARN),
        ("no_device", ["microphone: no_device (none)", "'ada': damaged"], Status.FAIL),
        ("listening", ["'ada': damaged"], Status.FAIL),
    ],
)
def test_a_missing_microphone_is_a_warning_with_a_daemon_as_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, microphone: str, problems: list[str] | None, status: Status
) -> None:
    told = {"version": "1", "microphone": microphone, "activation": "push_to_talk"}
    if problems is not None:  # an ordinary client hears of none
        told["problems"] = problems  # type: ignore[assignment]

    class Answering(Client):
        def __init__(self, path: Path, *, timeout: float) -> None: ...

        def close(self) -> None: ...

        def call(self, method: str, *_: object, **__: object) -> dict:
            assert method == "status"
            return told

    monkeypatch.setattr("voiceid.service.client.Client", Answering)
    monkeypatch.setattr("voiceid.service.sockets.is_served", lambda path: True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        config = tmp_path / "config.toml"
        config.write_text(f'[service]\nsocket = "{tmp_path / "s"}"\n')
        check = find(run_checks(config, tmp_path / "v"), "daemon")
    assert check.status is status and bool(check.advice) == (status is not Status.OK)
    assert microphone in check.detail and all(problem in check.detail for problem in problems or ())


def test_a_readable_or_missing_device_key_fails(vault: Path) -> None:
    (vault / "device.key").chmod(0o644)
    assert find(run_checks(None, vault), "device key").status is Status.FAIL
    (vault / "device.key").unlink()
    check = find(run_checks(None, vault), "device key")
    assert check.status is Status.FAIL and "restore" in check.advice


def test_another_device_key_fails(vault: Path) -> None:
    (vault / "device.key").unlink()
    create_device_key(vault / "device.key")
    check = find(run_checks(None, vault), "records")
    assert check.status is Status.FAIL and "another device key" in check.detail


def test_a_wrong_configuration_fails_but_the_other_checks_run(tmp_path: Path, vault: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[models]\nnonsense = 1\n")
    checks = run_checks(config, vault)
    assert find(checks, "configuration").status is Status.FAIL
    assert find(checks, "vault").status is Status.OK


def test_missing_models_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path))
    ran = voiceid("doctor", "--vault", tmp_path / "v", "--json")
    assert ran.code is ExitCode.CHECK_FAILED and ran.json["ok"] is False
    check = next(check for check in ran.json["checks"] if check["name"] == "models")
    assert check["status"] == "fail" and "no such model card" in check["detail"] and check["advice"]


@pytest.mark.parametrize(
    ("folder", "config", "advice"),
    [
        ("/nope", "", "VOICEID_MODELS says where the models are"),
        ("", "[models]\nunits = '/nope/units.json'\n", "[models] in the configuration"),
    ],
)
def test_the_advice_about_models_fits_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, config: str, advice: str
) -> None:
    monkeypatch.setenv("VOICEID_MODELS", folder)
    (tmp_path / "config.toml").write_text(config)
    check = find(run_checks(tmp_path / "config.toml", tmp_path / "v"), "models")
    assert check.status is Status.FAIL and "/nope" in check.detail and advice in check.advice


def test_the_advice_about_the_device_key_fits_the_cause(vault: Path) -> None:
    (vault / "device.key").chmod(0o644)
    assert "only this user can read" in find(run_checks(None, vault), "device key").advice
    assert "device key" in find(run_checks(None, vault), "records").advice


def test_a_clock_that_shows_no_date_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 10**12 * 10**9)
    check = find(run_checks(None, tmp_path / "v"), "clock")
    assert check.status is Status.FAIL and "no date" in check.detail


def test_a_path_that_cannot_exist_fails_its_checks_and_no_other(tmp_path: Path) -> None:
    checks = run_checks(None, tmp_path / ("x" * 256))
    assert find(checks, "vault").status is Status.FAIL and find(checks, "clock").status is Status.OK


def as_another_user(act: Callable[[], str]) -> str:
    """What ``act`` returns in a process of uid 65534."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, act().encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("served", [False, True])
def test_a_vault_that_is_the_daemons_is_not_called_broken_to_its_clients(inside: bool, served: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as parent, socket.socket(socket.AF_UNIX) as listener:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "state" / "vault" if inside else Path(parent) / "vault"
        folder.mkdir(parents=True, mode=0o700)
        folder.parent.chmod(0o700 if inside else 0o755)
        Vault.open(folder, create_device_key(folder / "device.key"), create=True)
        path = Path(parent) / "voiceid.sock"
        if served:
            listener.bind(str(path))
        config = Path(parent) / "config.toml"
        config.write_text(f'[paths]\nvault = "{folder}"\n[service]\nsocket = "{path}"\n')
        names = ("vault", "device key", "records", "disk")

        def look() -> str:
            checks = run_checks(config)
            return json.dumps([dataclasses.astuple(find(checks, name)) for name in names])

        found = {name: (status, detail, advice) for name, status, detail, advice in json.loads(as_another_user(look))}
        assert {name for name, (status, _, _) in found.items() if status == "fail"} == set()
        for name in names[:3]:
            status, detail, advice = found[name]
            assert "closed to you, of uid 0" in detail and status == ("ok" if served else "warn")
            assert ("as it should be for a client" in detail) if served else ("start it" in advice)
        as_root = run_checks(config)
        assert {find(as_root, name).status for name in names[:3]} == {Status.OK}


def test_every_problem_comes_with_advice(tmp_path: Path) -> None:
    assert all(check.advice for check in run_checks(None, tmp_path / "v") if check.status is not Status.OK)
