"""Daemon and command line under a clock that is set while they run: a day back, ten years on, to 1970 and before."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.daemon_helpers import OWNER, RP, STRANGER, Running, enrol, open_vault, say
from voiceid.cli.exit_codes import ExitCode
from voiceid.relying_party import Registration, VerifiedEnvelope, verify, verify_registration
from voiceid.service.client import Client, RemoteError
from voiceid.service.lockout_state import FIRST_DELAY
from voiceid.service.schema import Fault
from voiceid.service.wire import from_base64

DAY = 86_400
NOW, YESTERDAY, IN_TEN_YEARS = "2030-06-15 12:00:00", "2030-06-14 12:00:00", "2040-06-15 12:00:00"
BEGINNING, BEFORE = "1970-01-01 12:00:00", "1960-01-01 12:00:00"
SIGNING = ("--challenge", "A" * 22, "--purpose", "pay 10", "--output", os.devnull)


class WrongClock:
    """Tells the programs that use :attr:`environment` the time; only what can be set on a real machine is false."""

    def __init__(self, file: Path) -> None:
        shown = ["faketime", "-m", "-f", "+0d", "printenv", "LD_PRELOAD"]
        preload = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.strip()
        self._file = file
        self.environment = {
            "LD_PRELOAD": preload,
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        }

    def set(self, moment: str) -> None:
        """It is ``moment`` for whoever looks next."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"@{moment}\n", "ascii")
        beside.replace(self._file)


class Device:
    """A daemon under a wrong clock, in which Ada is enrolled and registered at a relying party."""

    def __init__(self, running: Running, clock: WrongClock, clips: dict[str, list[Path]]) -> None:
        self.running, self.clock = running, clock
        self.stranger = clips[STRANGER][0]
        with running.client() as client:
            enrol(client, "ada", clips[OWNER][:6])
            self.command = next(
                clip for clip in clips[OWNER][6:] if say(client, clip, user="ada")["answer"] == "accepted"
            )
            self.registration = self.register(client)

    def register(self, client: Client) -> Registration:
        nonce = secrets.token_bytes(32)
        made = say(client, self.command, "credentials.register", user="ada", relying_party=RP, challenge=nonce)
        return verify_registration(made["registration"], expected_challenge=nonce, expected_rp_id=RP)

    def authenticate(self, client: Client) -> VerifiedEnvelope:
        nonce = secrets.token_bytes(32)
        asked = {"user": "ada", "relying_party": RP, "purpose": "pay 10", "nonce": nonce}
        signed = say(client, self.command, "authenticate", **asked)
        expected = {"registration": self.registration, "expected_nonce": nonce, "expected_rp_id": RP}
        return verify(from_base64(signed["envelope"]), **expected, expected_purpose="pay 10", allow_file=True)

    def ask(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """The command line under the same clock."""
        command = [sys.executable, "-c", "from voiceid.cli.start import main; main()", *map(str, arguments)]
        environment = {**os.environ, **self.running.environment}
        options = ["--config", str(self.running.config)]
        return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def device(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], clips: dict[str, list[Path]]
) -> Iterator[Device]:
    if shutil.which("faketime") is None:
        pytest.skip("faketime(1) is not installed")
    folder = tmp_path_factory.mktemp("clock")
    clock = WrongClock(folder / "now")
    clock.set(NOW)
    running = Running(folder, environment={**environment, **clock.environment})
    running.recording.write_bytes(b"")
    running.start()
    yield Device(running, clock, clips)
    assert running.stop() == 0, running.said()
    assert "Traceback" not in running.said()


def test_counters_rise_and_envelopes_tell_the_time_that_the_clock_shows(device: Device) -> None:
    with device.running.client() as client:
        verified = []
        for moment in (NOW, YESTERDAY, IN_TEN_YEARS, BEGINNING):
            device.clock.set(moment)
            verified.append(device.authenticate(client))
    assert [envelope.counter for envelope in verified] == [1, 2, 3, 4]
    now, yesterday, later, beginning = (envelope.time for envelope in verified)
    assert yesterday < now < yesterday + 2 * DAY and later > now + 3650 * DAY and 0 < beginning < DAY


def test_the_newest_credential_stays_the_newest(device: Device) -> None:
    device.clock.set(YESTERDAY)
    former = device.registration
    with device.running.client() as client:
        device.registration = device.register(client)
        first, second = client.call("credentials.list", user="ada")["credentials"]
        assert from_base64(second["credential_id"]) == device.registration.credential_id
        assert second["created"] == first["created"] + 1, "although the clock had gone back a day"
        assert device.authenticate(client).counter == 1
        client.call("credentials.revoke", user="ada", credential_id=former.credential_id)


def test_a_lock_is_neither_shortened_nor_drawn_out(device: Device) -> None:
    device.clock.set(NOW)
    with device.running.client() as client:
        for _ in range(4):
            assert say(client, device.stranger, user="ada")["answer"] == "denied"
        began = time.monotonic()
        assert say(client, device.stranger, user="ada")["answer"] == "denied"
        for moment in (NOW, YESTERDAY, IN_TEN_YEARS, BEGINNING, BEFORE):
            device.clock.set(moment)
            left = client.call("lockout.show", user="ada")["retry_after"]
            assert FIRST_DELAY - (time.monotonic() - began) <= left <= FIRST_DELAY
        client.call("lockout.reset", user="ada")


def test_without_a_date_nothing_is_stored_or_signed_and_nobody_is_charged(device: Device) -> None:
    device.clock.set(BEFORE)
    nonce = secrets.token_bytes(32)
    party = {"user": "ada", "relying_party": RP}
    with device.running.client() as client:
        assert say(client, device.command, user="ada")["answer"] == "accepted", "which needs no date"
        for method, asked in (
            ("authenticate", {**party, "purpose": "pay 10", "nonce": nonce}),
            ("credentials.register", {**party, "challenge": nonce}),
            ("enrol", {"user": "bob"}),
        ):
            with pytest.raises(RemoteError) as caught:
                say(client, device.command, method, **asked)
            assert caught.value.fault is Fault.CLOCK and "timedatectl" in str(caught.value)
        assert client.call("lockout.show", user="ada")["failures"] == 0
        device.clock.set(NOW)
        assert device.authenticate(client).counter == 2


@pytest.mark.parametrize("moment", [YESTERDAY, IN_TEN_YEARS, BEGINNING, BEFORE])
def test_the_command_line_shows_what_there_is_at_any_time(device: Device, moment: str) -> None:
    device.clock.set(moment)
    for arguments in (("status",), ("users", "show", "ada"), ("verify", "ada", device.command)):
        ran = device.ask(*arguments)
        assert ran.returncode == 0, (arguments, ran.stderr)
    refused = device.ask("authenticate", "ada", device.command, "--relying-party", "bank.example.org", *SIGNING)
    assert refused.returncode == ExitCode.CREDENTIAL and len(refused.stderr.splitlines()) == 1, refused.stderr


def test_killed_and_started_again_at_another_time_it_goes_on_where_it_was(device: Device) -> None:
    for moment in (BEFORE, BEGINNING):
        device.running.kill()
        device.clock.set(moment)
        device.running.start()
        assert open_vault(device.running).problems() == ()
        with device.running.client() as client:
            assert client.call("status")["problems"] == []
            assert say(client, device.command, user="ada")["answer"] == "accepted"
    device.clock.set(NOW)
    with device.running.client() as client:
        assert device.authenticate(client).counter == 3
