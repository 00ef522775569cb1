"""The device key: 32 random bytes from which every other secret of the device is derived.

Source, in this order: the systemd credential ``voiceid-device-key`` (``$CREDENTIALS_DIRECTORY``), else a file with mode
0600. HKDF (RFC 5869) gives one independent sub-key per purpose, so that no key is used for two things.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from enum import StrEnum, unique
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from voiceid.errors import CredentialError

DEVICE_KEY_BYTES = 32
SYSTEMD_CREDENTIAL = "voiceid-device-key"

_INFO = b"voiceid-device-key-v1|"


@unique
class Purpose(StrEnum):
    """What a sub-key is for."""

    VAULT = "vault"
    """Encrypts records at rest."""
    SEAL = "seal"
    """Seals credential ids."""
    CREDENTIAL = "credential"
    """Derives credential private keys."""


class DeviceKey:
    """The secret of this device. It has no useful ``repr`` and must not be logged.

    Raises:
        CredentialError: ``secret`` is not 32 bytes, or all of them are equal.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != DEVICE_KEY_BYTES:
            raise CredentialError(f"a device key has {DEVICE_KEY_BYTES} bytes, this one has {len(secret)}")
        if len(set(secret)) == 1:
            raise CredentialError("the device key is one byte repeated, not random; restore or replace it")
        self._secret = secret

    def subkey(self, purpose: Purpose) -> bytes:
        """The 32-byte sub-key for ``purpose``: HKDF-SHA256 of the device key, no salt, the purpose in ``info``."""
        info = _INFO + purpose.value.encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)

    def __repr__(self) -> str:
        return "DeviceKey(...)"

    def __reduce__(self) -> str:
        raise TypeError("a device key cannot be pickled")


def load_device_key(path: Path) -> DeviceKey:
    """The device key from systemd's credential if there is one, else from the file at ``path``.

    Raises:
        CredentialError: missing, unreadable, of the wrong length, readable by group or others, or owned by another
            user than this one or root.
    """
    if credential := systemd_credential():
        return DeviceKey(_read(credential, private=False))
    return DeviceKey(_read(path, private=True))


def create_device_key(path: Path) -> DeviceKey:
    """Make a new random key at ``path`` (0600 under any umask); a half-written or overwritten key cannot happen.

    Raises:
        CredentialError: ``path`` exists already, or cannot be written.
    """
    secret = secrets.token_bytes(DEVICE_KEY_BYTES)
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            if os.write(descriptor, secret) != len(secret):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        path.hardlink_to(temporary)
    except FileExistsError:
        raise CredentialError(f"{path}: a device key exists already; it was left as it is") from None
    except OSError as error:
        raise CredentialError(f"{path}: the device key cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return DeviceKey(secret)


def systemd_credential() -> Path | None:
    """Path of the key that systemd passed to this service, or None."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / SYSTEMD_CREDENTIAL if folder else None
    return path if path is not None and path.exists() else None


def _read(path: Path, *, private: bool) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if private else 0))
    except FileNotFoundError:
        raise CredentialError(f"{path}: no device key here; restore it, or enrol anew on an empty vault") from None
    except OSError as error:
        raise CredentialError(f"{path}: the device key cannot be read ({error.strerror})") from error
    try:
        _check_file(path, os.fstat(descriptor), private=private)
        data = os.read(descriptor, DEVICE_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) != DEVICE_KEY_BYTES:
        raise CredentialError(f"{path}: a device key has {DEVICE_KEY_BYTES} bytes, this file has another length")
    return data


def _check_file(path: Path, status: os.stat_result, *, private: bool) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise CredentialError(f"{path}: the device key is not a regular file")
    if private and mode & 0o077:
        raise CredentialError(f"{path}: others can read the device key (mode {mode:04o}); run: chmod 600 {path}")
    if private and status.st_uid not in (0, os.geteuid()):
        raise CredentialError(f"{path}: the device key belongs to uid {status.st_uid}, not to this user")
