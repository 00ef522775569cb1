"""The daemon among faults: stopped or killed at any moment, a full disk, a vault that others can read."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.daemon_helpers import OWNER, RP, STRANGER, Running, enrol, open_vault, samples, say
from voiceid.cli.exit_codes import ExitCode
from voiceid.errors import ServiceError
from voiceid.relying_party import verify, verify_registration
from voiceid.service.client import Client, RemoteError
from voiceid.service.lockout import Lockout
from voiceid.service.schema import Fault
from voiceid.service.wire import from_base64

KILLS = int(os.environ.get("VOICEID_KILLS", "2"))
"""How often the daemon is killed in each of three acts: every time takes a start; 50 take a quarter of an hour."""


def test_sigterm_during_an_enrolment_stores_nothing_and_ends_cleanly(
    tmp_path: Path, environment: dict[str, str], clips: dict[str, list[Path]]
) -> None:
    running = Running(tmp_path, environment=environment)
    running.recording.write_bytes(b"")
    running.start()
    heard: list[str] = []

    def stop(name: str, params: dict) -> None:
        heard.append(name)
        if len(heard) == 1:
            running.signal(signal.SIGTERM)

    with running.client() as client:
        client.hand_over(samples(clips[OWNER][:6]))
        with pytest.raises(ServiceError, match=r"stopping|closed|lost"):
            client.call("enrol", stop, user="ada", audio=True)
    assert running.wait() == 0, running.said()
    assert not running.socket.exists()
    assert open_vault(running).list_users() == () and open_vault(running).problems() == ()


class Victim:
    """A daemon that is killed in the middle of what it is asked for, and what it has promised so far.

    ``failures``, ``counter``: as last seen; ``possible``: numbers of failures that may be found now.
    """

    def __init__(self, running: Running, clips: dict[str, list[Path]]) -> None:
        self.running = running
        self.clips, nonce = clips[OWNER], secrets.token_bytes(32)
        self.stranger = clips[STRANGER]
        with running.client() as client:
            enrol(client, "ada", self.clips[:6])
            passes = (clip for clip in self.clips[6:] if say(client, clip, user="ada")["answer"] == "accepted")
            self.command = next(passes)
            asked = {"user": "ada", "relying_party": RP, "challenge": nonce}
            made = say(client, self.command, "credentials.register", **asked)["registration"]
        self.registration = verify_registration(made, expected_challenge=nonce, expected_rp_id=RP)
        self.enrolment_id = open_vault(running).load_template("ada").enrolment_id
        self.users = {"ada"}
        self.failures = self.counter = 0
        self.possible = {0}

    def enrol(self, client: Client) -> None:
        enrol(client, "bob", self.stranger[:6], replace="bob" in self.users)
        self.users.add("bob")

    def fail(self, client: Client) -> None:
        if self.failures > 2:
            self.possible = {self.failures, 0}
            client.call("lockout.reset", user="ada")
            self.failures = 0
        self.possible = {self.failures, self.failures + 1}
        assert say(client, self.stranger[0], user="ada")["answer"] == "denied"
        self.possible = {self.failures + 1}

    def sign(self, client: Client) -> None:
        asked = {"user": "ada", "relying_party": RP, "purpose": "a test", "nonce": bytes(16)}
        self.possible = {self.failures, self.failures + 1, 0}
        signed = say(client, self.command, "authenticate", **asked)
        self.possible = {0}
        expected = {"registration": self.registration, "expected_nonce": bytes(16), "expected_rp_id": RP}
        verified = verify(from_base64(signed["envelope"]), **expected, expected_purpose="a test", allow_file=True)
        assert verified.counter > self.counter
        self.counter = verified.counter

    def check(self) -> None:
        """The vault is whole, what was answered has happened, and nothing has happened that was not asked for."""
        vault = open_vault(self.running)
        assert vault.problems() == ()
        assert vault.load_template("ada").enrolment_id == self.enrolment_id
        users = {user.name for user in vault.list_users()}
        assert self.users <= users <= {"ada", "bob"}
        assert all(len(vault.load_template(name).utterances) >= 3 for name in users)
        failures, counter = Lockout(vault).report("ada").failures, vault.next_counter(self.registration.credential_id)
        assert failures in self.possible
        assert counter > self.counter
        self.users, self.failures, self.counter, self.possible = users, failures, counter, {failures}


def test_killed_at_random_moments_the_vault_is_whole_and_no_count_falls(
    tmp_path: Path, environment: dict[str, str], clips: dict[str, list[Path]]
) -> None:
    running = Running(tmp_path, environment=environment)
    running.recording.write_bytes(b"")
    victim = Victim(running.start(), clips)
    acts = (victim.enrol, victim.fail, victim.sign)
    rng, took, unanswered = random.Random(7), {}, Counter[str]()
    for act in acts:
        with running.client() as client:
            began = time.monotonic()
            act(client)
            took[act] = time.monotonic() - began
    running.kill()
    victim.check()
    for act in acts * KILLS:
        with running.start().client() as client:
            assert client.call("status")["problems"] == []
            kill = threading.Timer(rng.uniform(0.0, took[act]), running.kill)
            kill.start()
            try:
                act(client)
            except ServiceError:
                unanswered[act.__name__] += 1
            kill.join()
        victim.check()
    assert running.start().stop() == 0, running.said()
    print(f"killed {KILLS} times in each act; before its answer: {dict(unanswered)}; acts took {list(took.values())} s")


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if (mounted := subprocess.run(command, capture_output=True, text=True)).returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_nothing_is_judged_and_all_is_well_when_there_is_room(
    tmpfs: Path, tmp_path: Path, environment: dict[str, str], clips: dict[str, list[Path]]
) -> None:
    running = Running(tmp_path / "run", environment=environment)
    running.vault = tmpfs / "vault"
    running.recording.write_bytes(b"")
    running.start()
    with running.client() as client:
        enrol(client, "ada", clips[OWNER][:6])
        ballast = tmpfs / "ballast"
        with ballast.open("wb") as stream, pytest.raises(OSError, match="No space left"):
            while True:
                os.write(stream.fileno(), b"\0" * 4096)
        with pytest.raises(RemoteError) as caught:
            say(client, clips[OWNER][6], user="ada")
        assert caught.value.fault is Fault.VAULT and "disk full" in str(caught.value)
        ballast.unlink()
        assert say(client, clips[OWNER][6], user="ada")["answer"] in ("accepted", "denied")
        assert client.call("status")["problems"] == []
    assert running.stop() == 0
    assert "outcome=" in running.said()


def test_a_vault_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.vault.mkdir(mode=0o755)
    running.vault.chmod(0o755)
    running.recording.write_bytes(b"")
    running.start(wait=False)
    assert running.wait() == ExitCode.VAULT
    assert "chmod 700" in running.said() and stat.S_IMODE(running.vault.stat().st_mode) == 0o755
