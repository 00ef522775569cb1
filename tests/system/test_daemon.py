"""The daemon as a process: real models, real recordings, signals, crashes, a full disk and hostile clients."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest
import soundfile

from tests.cli_helpers import voiceid
from tests.system.daemon_helpers import OWNER, RP, STRANGER, Running, open_vault, say
from tests.vault_helpers import NONCE, accepted, make_template
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import load_device_key
from voiceid.errors import EnvelopeError
from voiceid.relying_party import verify, verify_registration
from voiceid.service.client import Client, RemoteError
from voiceid.service.schema import Fault
from voiceid.service.wire import from_base64


def test_status_and_files(enrolled: Running) -> None:
    with enrolled.client() as client:
        status = client.call("status")
    assert status["microphone"] == "file" and status["users"] == 1 and status["problems"] == []
    assert stat.S_IMODE(enrolled.socket.stat().st_mode) == 0o660
    assert stat.S_IMODE(enrolled.vault.stat().st_mode) == 0o700
    assert stat.S_IMODE(enrolled.socket.with_name("metrics.prom").stat().st_mode) == 0o640


def test_the_owner_is_accepted_and_a_stranger_denied_and_counted(
    enrolled: Running, command: Path, clips: dict[str, list[Path]]
) -> None:
    with enrolled.client() as client:
        challenge = secrets.token_bytes(32)
        accepted = say(client, command, user="ada", challenge=challenge)
        assert accepted["answer"] == "accepted" and from_base64(accepted["challenge"]) == challenge
        assert accepted["detail"]["outcome"] == "accepted" and accepted["detail"]["evidence"]["identity"]["passed"]
        denied = say(client, clips[STRANGER][0], user="ada")
        assert denied["answer"] == "denied" and denied["decision"] != accepted["decision"]
        assert client.call("lockout.show", user="ada")["failures"] == 1
        assert say(client, command, user="ada")["answer"] == "accepted"
        assert client.call("lockout.show", user="ada")["failures"] == 0
    log = enrolled.said()
    assert f"decision={denied['decision']}" in log and "outcome=rejected" in log
    without_ids = re.sub(r"\b[0-9a-f]{12,32}\b", "", log)  # which are random, and hold any three digits now and then
    assert "ada" not in without_ids, "no names by default"


def test_five_strangers_lock_and_a_pin_or_an_admin_unlocks(
    enrolled: Running, command: Path, clips: dict[str, list[Path]]
) -> None:
    with enrolled.client() as client:
        client.call("pin.set", user="ada", pin="2580")
        for _ in range(5):
            assert say(client, clips[STRANGER][0], user="ada")["answer"] == "denied"
        locked = say(client, command, user="ada")
        assert locked["answer"] == "locked" and 0 < locked["retry_after"] <= 30
        shown = voiceid("verify", "ada", command, "--config", enrolled.config)
        assert shown.code is ExitCode.LOCKED_OUT
        assert re.search(r"try again in \d+ s; .* 'voiceid pin enter ada'", shown.out)
        assert voiceid("verify", "ada", command, "--config", enrolled.config, "--json").json["retry_after"] > 0
        report = client.call("lockout.show", user="ada")
        assert report["locked"] and 0 < report["retry_after"] <= 30 and report["pin"]
        assert client.call("pin.enter", user="ada", pin="1111") == {"answer": "denied"}
        assert client.call("pin.enter", user="ada", pin="2580") == {"answer": "accepted"}
        assert say(client, command, user="ada")["answer"] == "accepted"
        client.call("lockout.reset", user="ada")


def test_a_file_is_signed_as_a_file(enrolled: Running, command: Path) -> None:
    nonce = secrets.token_bytes(32)
    with enrolled.client() as client:
        registered = say(client, command, "credentials.register", user="ada", relying_party=RP, challenge=nonce)
        assert registered["answer"] == "accepted"
        registration = verify_registration(registered["registration"], expected_challenge=nonce, expected_rp_id=RP)
        nonce = secrets.token_bytes(32)
        asked = {"user": "ada", "relying_party": RP, "purpose": "pay 10", "nonce": nonce}
        result = say(client, command, "authenticate", **asked)
        assert result["source"] == "file"
        envelope = from_base64(result["envelope"])
        with pytest.raises(EnvelopeError, match="file"):
            verify(envelope, registration=registration, expected_nonce=nonce, expected_rp_id=RP)
        expected = {"registration": registration, "expected_nonce": nonce, "expected_rp_id": RP}
        verified = verify(envelope, **expected, expected_purpose="pay 10", allow_file=True)
        assert verified.units
        with pytest.raises(RemoteError) as caught:
            client.call("authenticate", **{**asked, "relying_party": "bank.example.org"})
        assert caught.value.fault is Fault.CREDENTIAL, "checked before anybody has to speak"
        (credential,) = client.call("credentials.list", user="ada")["credentials"]
        twice = ("--relying-party", RP, "--challenge", "A" * 32, "--config", enrolled.config)
        refused = voiceid("credentials", "register", "ada", command, *twice)
        assert refused.code is ExitCode.CREDENTIAL and "--another" in refused.err
        again = voiceid("credentials", "register", "ada", command, *twice, "--another", "--json")
        assert again.code is ExitCode.ACCEPTED and "give the service this registration" in again.err
        for identifier in (credential["credential_id"], again.json["credential_id"]):
            client.call("credentials.revoke", user="ada", credential_id=from_base64(identifier))


def test_one_capture_session_and_it_ends_with_its_client(enrolled: Running) -> None:
    with enrolled.client() as one, enrolled.client() as two:
        one.call("claim")
        for method, params in (("claim", {}), ("verify", {"user": "ada", "purpose": "x", "challenge": bytes(16)})):
            with pytest.raises(RemoteError) as caught:
                two.call(method, **params)
            assert caught.value.fault is Fault.BUSY
        one.close()
        deadline = time.monotonic() + 60
        while two.call("status")["busy"] and time.monotonic() < deadline:
            time.sleep(0.02)
        two.call("claim")


def test_a_claim_for_nothing_is_taken_away(enrolled: Running) -> None:
    with enrolled.client() as client, enrolled.client() as other:
        try:
            enrolled.settings = "claim_idle = 1.0"
            enrolled.configure()
            assert client.call("reload")["restart"] == []
            claim = client.call("claim", seconds=300)["claim"]
            assert client.listen() == ("claim.ended", {"claim": claim, "reason": "idle"})
            assert not other.call("status")["busy"]
            with pytest.raises(RemoteError, match="leave the session to others"):
                other.call("claim")
            time.sleep(1.0)
            other.call("claim")
        finally:
            enrolled.settings = ""
            enrolled.configure()
            client.call("reload")


def test_the_command_line_asks_the_daemon(enrolled: Running, command: Path, tmp_path: Path) -> None:
    options = ("--config", enrolled.config)
    assert voiceid("status", *options, "--json").json["users"] == 1
    assert [user["name"] for user in voiceid("users", "list", *options, "--json").json] == ["ada"]
    ran = voiceid("verify", "ada", command, *options, "--json")
    assert ran.code is ExitCode.ACCEPTED and ran.json["answer"] == "accepted"
    assert voiceid("verify", "nobody", command, *options, "--json").code is ExitCode.NOT_ENROLLED
    assert not voiceid("lockout", "show", "ada", *options, "--json").json["locked"]
    assert voiceid("pin", "set", "ada", *options, stdin="2580").code is ExitCode.ACCEPTED
    assert voiceid("pin", "enter", "ada", *options, stdin="0000\n").code is ExitCode.REJECTED
    for pin, code, message in (
        ("1234", ExitCode.PIN, "counts up or down"),
        ("12", ExitCode.PIN, "the PIN has 2 characters; 4 to 64 are needed"),
    ):
        refused = voiceid("pin", "set", "ada", *options, stdin=f"{pin}\n")
        assert refused.code is code and message in refused.err and len(refused.err.splitlines()) == 1
    assert voiceid("pin", "clear", "ada", *options).code is ExitCode.ACCEPTED
    assert voiceid("pin", "clear", "ada", *options).code is ExitCode.PIN
    for action in ("set", "enter"):
        assert voiceid("pin", action, "nobody", *options, stdin="2580\n").code is ExitCode.NOT_ENROLLED
    gone = voiceid("pin", "enter", "ada", *options, stdin="2580\n")
    assert gone.code is ExitCode.LOCKED_OUT and "there is no PIN" in gone.out
    assert voiceid("privacy", "set", RP, "--codebook", "50", *options, "--json").json[RP]["codebook"] == 50
    assert voiceid("users", "show", "nobody", *options).code is ExitCode.NOT_ENROLLED
    apart = tmp_path / "apart"
    assert voiceid("users", "list", *options, "--vault", apart).code is ExitCode.VAULT, "--vault leaves the daemon out"


def test_damaged_records_are_told_and_removed_through_the_daemon(enrolled: Running) -> None:
    vault, options = open_vault(enrolled), ("--config", enrolled.config, "--json")
    template = make_template("Carl", owner_uid=os.getuid())
    vault.save_template(template)
    key = load_device_key(enrolled.vault / "device.key")
    for party in (RP, "bank.example.org"):
        Authenticator(vault, key).register("Carl", rp_id=party, challenge=NONCE, decision=accepted("Carl"))
    next(enrolled.vault.glob("users/*/credential-*")).write_bytes(b"x")
    listed = voiceid("credentials", "list", *options)
    assert [row["user"] for row in listed.json] == ["Carl"] and "revoke Carl --damaged" in listed.err
    (user,) = (user for user in voiceid("users", "list", *options).json if user["name"] == "Carl")
    assert voiceid("users", "show", "carl", *options).json == {**user, "credentials": listed.json}
    assert voiceid("credentials", "revoke", "Carl", "--damaged", "--yes", *options).json["removed"] == 1
    folder = next(enrolled.vault.glob("users/*/credential-*")).parent
    (folder / "template").write_bytes(b"x")
    deleted = voiceid("users", "delete", "carl", "--yes", *options)
    assert deleted.code is ExitCode.ACCEPTED and "warning: " in deleted.err and deleted.json["unreadable"] == 1
    assert vault.problems() == ()


def test_the_command_line_names_each_recording_of_an_enrolment(
    enrolled: Running, clips: dict[str, list[Path]], tmp_path: Path
) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, [0.0] * 32_000, 16_000)
    files = [clips[STRANGER][0], silence, clips[OWNER][0]]
    ran = voiceid("enroll", "bob", *files, "--config", enrolled.config, "--json")
    assert ran.code is ExitCode.ENROLMENT and ran.json["enrolled"] is False and 0 < ran.json["progress"] < 1
    assert [utterance["source"] for utterance in ran.json["utterances"]] == [str(file) for file in files]
    assert [utterance.get("fault") for utterance in ran.json["utterances"]] == [None, "silent", "other_speaker"]
    for file, word in zip(files, ("taken", "refused", "refused"), strict=True):
        assert re.search(rf"{word} +{re.escape(str(file))}", ran.err)
    many = voiceid("enroll", "bob", *[silence] * 21, "--config", enrolled.config, "--json")
    assert many.code is ExitCode.ENROLMENT and len(many.json["utterances"]) == 20


def test_a_second_daemon_is_refused(enrolled: Running, tmp_path: Path, environment: dict[str, str]) -> None:
    same_vault = Running(tmp_path / "b", environment=environment)
    same_vault.vault = enrolled.vault
    same_vault.recording.write_bytes(b"")
    same_vault.start(wait=False)
    assert same_vault.wait() == ExitCode.SERVICE and "another voiceid daemon serves this vault" in same_vault.said()
    same_socket = Running(tmp_path / "c", environment=environment)
    same_socket.socket = enrolled.socket
    same_socket.recording.write_bytes(b"")
    same_socket.start(wait=False)
    assert same_socket.wait() == ExitCode.SERVICE and "another voiceid daemon listens here" in same_socket.said()
    with enrolled.client() as client:
        assert client.call("status")["users"] == 1


def test_reload_with_a_damaged_card_keeps_the_models(
    enrolled: Running, command: Path, environment: dict[str, str]
) -> None:
    card = Path(environment["VOICEID_MODELS"]) / "fusion.json"
    good = card.read_bytes()
    with enrolled.client() as client:
        try:
            card.write_bytes(good[:-20])
            with pytest.raises(RemoteError) as caught:
                client.call("reload")
            assert caught.value.fault is Fault.MODEL and "fusion.json" in str(caught.value)
            enrolled.signal(signal.SIGHUP)
            assert say(client, command, user="ada")["answer"] == "accepted"
        finally:
            card.write_bytes(good)
        assert client.call("reload")["restart"] == []
        assert say(client, command, user="ada")["answer"] == "accepted"
    assert "the former settings and models stay" in enrolled.said()


def test_thirty_signals_to_reload_are_two_reloads_at_most(enrolled: Running) -> None:
    before = enrolled.said().count(": reloaded")
    for _ in range(30):
        enrolled.signal(signal.SIGHUP)
        time.sleep(0.005)
    with enrolled.client() as client:
        client.call("status")  # behind the last signal
        client.call("reload")
    assert 1 <= enrolled.said().count(": reloaded") - before <= 4


def test_hostile_clients_do_not_keep_honest_ones_waiting(enrolled: Running) -> None:
    hostile = []
    for data in (
        b"\x00\xff\n",
        b"x" * 70_000,
        b'{"jsonrpc"',
        b'{"jsonrpc":"2.0","id":1,"method":"metrics"}\n' * 40,
        b"",
    ):
        for _ in range(6):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(10)
            connection.connect(str(enrolled.socket))
            with contextlib.suppress(OSError):
                connection.sendall(data)
            hostile.append(connection)
    answered = []

    def honest() -> None:
        with enrolled.client() as client:
            for _ in range(3):
                answered.append(client.call("status")["users"])

    threads = [threading.Thread(target=honest) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in hostile:
        connection.close()
    assert answered == [1] * 60


def test_stopped_for_a_while_it_goes_on(enrolled: Running) -> None:
    enrolled.signal(signal.SIGSTOP)
    time.sleep(0.3)
    enrolled.signal(signal.SIGCONT)
    with enrolled.client() as client:
        assert client.call("status")["users"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="connecting as another uid needs root")
def test_an_ordinary_uid_is_told_no_more_than_it_may_know(enrolled: Running, tmp_path: Path) -> None:
    other = 4_000_123
    folder = Path(tempfile.mkdtemp())
    link = folder / "s"
    try:
        folder.chmod(0o755)
        os.link(enrolled.socket, link)
        os.chown(link, 0, other)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os._exit(_as_uid(other, link, write))
        os.close(write)
        with os.fdopen(read) as stream:
            said = stream.read()
        assert os.waitpid(child, 0)[1] == 0, said
    finally:
        os.chown(enrolled.socket, 0, 0)
        shutil.rmtree(folder)


def _refusal(client: Client, method: str, /, **params: object) -> tuple[Fault, str]:
    try:
        client.call(method, **params)
    except RemoteError as error:
        return error.fault, str(error)
    raise AssertionError(f"{method} was allowed")


def _as_uid(uid: int, path: Path, write: int) -> int:
    """What a client of ``uid`` hears, checked in a process of its own."""
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        with Client(path, timeout=60) as client:
            assert not client.call("hello", protocol=1)["admin"]
            assert set(client.call("status")) == {"protocol", "version", "microphone", "activation", "busy", "uptime"}
            assert client.call("users.list") == {"users": []}
            messages = set()
            for user in ("ada", "nobody"):
                for method in ("verify", "users.delete", "lockout.show", "lockout.reset"):
                    more = {"purpose": "x", "challenge": bytes(16)} if method == "verify" else {}
                    try:
                        client.call(method, user=user, **more)
                    except RemoteError as error:
                        assert error.fault is Fault.NOT_PERMITTED
                        messages.add(str(error).split(":")[1])
                    else:
                        raise AssertionError(f"{method} was allowed")
            assert len(messages) == 1, "an unknown user is not told from a forbidden one"
            for more in ({}, {"replace": True}, {"renew": True}):
                heard = {_refusal(client, "enrol", user=user, audio=True, **more) for user in ("ada", "somebody")}
                assert len(heard) == 1, "nor is a name that is taken from one that is free"
            for method in ("metrics", "reload"):
                try:
                    client.call(method)
                except RemoteError as error:
                    assert error.fault is Fault.NOT_PERMITTED
                else:
                    raise AssertionError(f"{method} was allowed")
    except BaseException as error:
        os.write(write, repr(error).encode())
        return 1
    return 0


def test_under_systemd_it_takes_the_socket_and_tells_how_it_is(tmp_path: Path, environment: dict[str, str]) -> None:
    running = Running(tmp_path, environment=environment)
    running.recording.write_bytes(b"")
    running.socket.parent.mkdir()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(120)
        listener.bind(str(running.socket))
        listener.listen()
        os.set_inheritable(listener.fileno(), True)
        script = f'exec 3<&{listener.fileno()}; export LISTEN_PID=$$; exec "$@"'
        running.launcher = ("bash", "-c", script, "bash")
        running.environment = {
            **environment,
            "LISTEN_FDS": "1",
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "3000000",
        }
        running.start(wait=False)
        told = _until(systemd, "WATCHDOG=1")
        assert told[0].startswith("READY=1")
        with running.client() as client:
            assert client.call("status")["clients"] == 1
        running.signal(signal.SIGHUP)
        told = _until(systemd, "READY=1")
        assert any(message.startswith("RELOADING=1\nMONOTONIC_USEC=") for message in told)
        running.signal(signal.SIGTERM)
        assert _until(systemd, "STOPPING=1")
        assert running.wait() == 0, running.said()
        assert running.socket.exists(), "the socket is systemd's"


def _until(systemd: socket.socket, beginning: str) -> list[str]:
    """What systemd is told up to a message of that ``beginning``."""
    told = [""]
    while not told[-1].startswith(beginning):
        told.append(systemd.recv(400).decode())
    return told[1:]
