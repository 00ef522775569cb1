"""Sockets, readiness and hardening, between real processes."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys

import pytest

from voiceid.errors import ServiceError, VaultError
from voiceid.service.hardening import check_vault_folder
from voiceid.service.notify import Notifier
from voiceid.service.sockets import OwnSocket, activated_socket, client_socket, daemon_socket, is_served
from voiceid.settings import ServiceSettings


def test_an_own_socket_is_for_its_group_under_any_umask(tmp_path):
    umask = os.umask(0)
    try:
        own = OwnSocket(tmp_path / "made" / "too" / "s.sock")
    finally:
        os.umask(umask)
    for folder in own.path.parents[:2]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(own.path.stat().st_mode) == 0o660
    assert is_served(own.path)
    own.close()
    assert not own.path.exists()


def test_a_second_daemon_is_refused_and_a_stale_socket_taken_over(tmp_path):
    path = tmp_path / "s.sock"
    first = OwnSocket(path)
    with pytest.raises(ServiceError, match="another voiceid daemon"):
        OwnSocket(path)
    assert is_served(path)
    first.listener.close()
    os.close(first._guard)
    assert path.exists() and not is_served(path)
    second = OwnSocket(path)
    assert is_served(path)
    second.close()


def test_a_socket_that_another_program_serves_is_refused(tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ServiceError, match="listens here already"):
            OwnSocket(path)


def test_what_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "s.sock"
    path.write_text("precious")
    with pytest.raises(ServiceError, match="no socket"):
        OwnSocket(path)
    assert path.read_text() == "precious"
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    with pytest.raises(ServiceError, match="no socket"):
        OwnSocket(link)


def test_a_folder_that_everybody_writes_to_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ServiceError, match="everybody may replace"):
        OwnSocket(folder / "s.sock")


def test_a_path_that_no_socket_can_have_is_refused(tmp_path):
    with pytest.raises(ServiceError, match="too long"):
        OwnSocket(tmp_path / ("x" * 120))


def test_where_the_socket_is(tmp_path, monkeypatch):
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert daemon_socket(ServiceSettings()) == tmp_path / "voiceid" / "voiceid.sock"
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/voiceid:/run/other")
    assert str(daemon_socket(ServiceSettings())) == "/run/voiceid/voiceid.sock"
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(ServiceError, match=r"set \[service\] socket"):
        daemon_socket(ServiceSettings())
    assert client_socket(ServiceSettings(socket=tmp_path / "none")) is None
    own = OwnSocket(tmp_path / "s.sock")
    assert client_socket(ServiceSettings(socket=own.path)) == own.path
    own.close()


ACTIVATED = """
import json, os
os.environ["LISTEN_PID"] = str(os.getpid())
from voiceid.service.sockets import activated_socket
try:
    listener = activated_socket()
    answer = [listener and listener.getsockname(), sorted(k for k in os.environ if k.startswith("LISTEN"))]
except Exception as error:
    answer = str(error)
print(json.dumps(answer))
"""


def activate(descriptor, **environment):
    """What :func:`activated_socket` makes of ``descriptor``, as number 3 of a process that systemd starts."""
    run = subprocess.run(
        [sys.executable, "-c", ACTIVATED],
        env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "voiceid.socket", **environment},
        preexec_fn=lambda: os.dup2(descriptor, 3),
        close_fds=False,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout)


def test_systemds_socket_is_taken(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_INET) as other:
        listener.bind(str(tmp_path / "s.sock"))
        listener.listen()
        assert activate(listener.fileno()) == [str(tmp_path / "s.sock"), []]
        assert "something else" in activate(other.fileno())
        assert "one ListenStream" in activate(listener.fileno(), LISTEN_FDS="2")
        assert activate(listener.fileno(), LISTEN_FDS="") == [None, []]


def test_sockets_that_are_meant_for_another_process_are_not_ours(monkeypatch):
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "1")
    assert activated_socket() is None


def test_systemd_is_told(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        notifier = Notifier()
        assert notifier.watchdog_seconds == 30
        assert "NOTIFY_SOCKET" not in os.environ
        for tell in (notifier.ready, notifier.alive, notifier.reloading, notifier.stopping):
            tell()
        told = [systemd.recv(200).decode() for _ in range(4)]
    assert told[0].startswith("READY=1\n") and told[1] == "WATCHDOG=1" and told[3].startswith("STOPPING=1\n")
    assert told[2].startswith("RELOADING=1\nMONOTONIC_USEC=")
    notifier.alive()  # nobody listens any more


def test_an_abstract_address_and_a_watchdog_for_somebody_else(monkeypatch):
    name = f"voiceid-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")
        monkeypatch.setenv("WATCHDOG_PID", "1")
        notifier = Notifier()
        assert notifier.watchdog_seconds is None
        notifier.ready()
        assert systemd.recv(200).startswith(b"READY=1")


def test_without_systemd_nothing_is_told(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    notifier = Notifier()
    notifier.ready()
    assert notifier.watchdog_seconds is None


def test_no_core_dumps_and_no_tracing():
    code = (
        "import resource, pathlib\n"
        "from voiceid.service.hardening import forbid_dumps\n"
        "forbid_dumps()\n"
        "import ctypes\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    )
    if sys.platform != "linux":
        pytest.skip("PR_GET_DUMPABLE is Linux's")
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "(0, 0) 0"


def test_a_vault_must_be_private_and_ours(tmp_path):
    check_vault_folder(tmp_path / "none yet")
    folder = tmp_path / "vault"
    folder.mkdir(mode=0o700)
    check_vault_folder(folder)
    for mode in (0o750, 0o701, 0o777):
        folder.chmod(mode)
        with pytest.raises(VaultError, match="chmod 700"):
            check_vault_folder(folder)
    folder.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(VaultError, match="no folder"):
        check_vault_folder(link)
    if os.geteuid() == 0:
        os.chown(folder, 4_000_001, 0)
        with pytest.raises(VaultError, match="belongs to uid 4000001"):
            check_vault_folder(folder)
