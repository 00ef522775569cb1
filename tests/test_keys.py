"""The device key file and its sub-keys."""

import hashlib
import hmac
import multiprocessing
import os
import pickle

import pytest

from voiceid.credentials.keys import DeviceKey, Purpose, create_device_key, load_device_key
from voiceid.errors import CredentialError

SECRET = bytes(range(32))


@pytest.fixture(autouse=True)
def no_systemd_credential(monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


@pytest.fixture
def open_umask():
    old = os.umask(0)
    yield
    os.umask(old)


def test_subkeys_are_hkdf_sha256_of_the_purpose():
    extracted = hmac.digest(bytes(32), SECRET, "sha256")
    for purpose in Purpose:
        info = b"voiceid-device-key-v1|" + purpose.value.encode()
        expected = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
        assert DeviceKey(SECRET).subkey(purpose) == expected
    assert len({DeviceKey(SECRET).subkey(purpose) for purpose in Purpose}) == 3


def test_a_created_key_is_private_under_any_umask_and_loads_again(tmp_path, open_umask):
    path = tmp_path / "device.key"
    created = create_device_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes()) == 32
    assert load_device_key(path).subkey(Purpose.SEAL) == created.subkey(Purpose.SEAL)
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "device.key"
    create_device_key(path)
    before = path.read_bytes()
    with pytest.raises(CredentialError, match="exists already"):
        create_device_key(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def _create(path, queue):
    try:
        queue.put(create_device_key(path).subkey(Purpose.VAULT))
    except CredentialError:
        queue.put(None)


def test_of_many_processes_that_create_one_key_exactly_one_wins(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_create, args=(tmp_path / "device.key", queue)) for _ in range(6)]
    for worker in workers:
        worker.start()
    made = [queue.get(timeout=20) for _ in workers]
    for worker in workers:
        worker.join()
    winners = [key for key in made if key is not None]
    assert winners == [load_device_key(tmp_path / "device.key").subkey(Purpose.VAULT)]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    path = tmp_path / "device.key"
    create_device_key(path)
    path.chmod(mode)
    with pytest.raises(CredentialError, match=f"mode {mode:04o}.*chmod 600"):
        load_device_key(path)


@pytest.mark.parametrize("content", [b"", SECRET[:31], SECRET + b"x"], ids=["empty", "short", "long"])
def test_a_key_of_another_length_is_refused(tmp_path, content):
    path = tmp_path / "device.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(CredentialError, match="32 bytes"):
        load_device_key(path)


def test_missing_folder_symlink_and_constant_keys_are_refused(tmp_path):
    with pytest.raises(CredentialError, match="no device key here"):
        load_device_key(tmp_path / "device.key")
    with pytest.raises(CredentialError, match="cannot be written"):
        create_device_key(tmp_path / "nowhere" / "device.key")
    create_device_key(tmp_path / "device.key")
    (tmp_path / "link.key").symlink_to(tmp_path / "device.key")
    with pytest.raises(CredentialError, match="cannot be read"):
        load_device_key(tmp_path / "link.key")
    with pytest.raises(CredentialError, match="not a regular file"):
        load_device_key(tmp_path)
    with pytest.raises(CredentialError, match="not random"):
        DeviceKey(bytes(32))


def test_the_systemd_credential_takes_precedence(tmp_path, monkeypatch):
    create_device_key(tmp_path / "device.key")
    passed = tmp_path / "credentials"
    passed.mkdir()
    (passed / "voiceid-device-key").write_bytes(SECRET)
    (passed / "voiceid-device-key").chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(passed))
    key = load_device_key(tmp_path / "device.key")
    assert key.subkey(Purpose.VAULT) == DeviceKey(SECRET).subkey(Purpose.VAULT)


def test_a_key_shows_itself_nowhere():
    key = DeviceKey(SECRET)
    assert repr(key) == str(key) == "DeviceKey(...)"
    with pytest.raises(TypeError):
        pickle.dumps(key)
