"""Another device key for a vault that is in use, so that a power cut at any point leaves the old state or the new.

All records are written anew, under the new key, into a copy inside the vault. The atomic replacement of the key file
decides: before it, the old key opens the old records; after it, the new key opens the copy, which takes its place at
once, or when the vault is next opened. Credentials and their counters are not copied: their private keys derive from
the device key.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from voiceid.credentials.credential import Credential
from voiceid.credentials.keys import DEVICE_KEY_BYTES, DeviceKey, Purpose, load_device_key, systemd_credential
from voiceid.enrolment import files
from voiceid.enrolment.contents import VaultContents
from voiceid.enrolment.record_folder import DAEMON_LOCK
from voiceid.enrolment.records import VaultKeys
from voiceid.enrolment.rekeying import COPY, put_in_place
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError

_GUIDE = "see docs/life-of-a-device.md"


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a change of the device key came to: users by name, and their credentials that it ended."""

    users: tuple[str, ...]
    ended: dict[str, tuple[Credential, ...]]


def check_rotation(key_path: Path) -> None:
    """Insist on a device key that lies in the file at ``key_path``, for this process to replace.

    Raises:
        CredentialError: systemd handed it over, or there is no such file.
        VaultError: this user may not know, or may not replace it.
    """
    if passed := systemd_credential():
        raise CredentialError(
            f"the device key comes from systemd ({passed}), where a service cannot change it; stop the service and "
            f"rotate as root in the file that the credential is made of: {_GUIDE}"
        )
    if not files.exists(key_path):
        raise CredentialError(
            f"{key_path}: no device key in this file; one that systemd-creds encrypted must lie here in plain while it "
            f"is rotated: {_GUIDE}"
        )
    files.check_writable(key_path.parent)


def rotate_device_key(folder: Path, key_path: Path) -> Rotation:
    """Give the vault in ``folder`` a new device key at ``key_path``; this ends every credential.

    Raises:
        CredentialError: as :func:`check_rotation`, or the key cannot be used.
        VaultError: a daemon serves the vault, a record is damaged, the disk is full or read-only; nothing was changed.
    """
    check_rotation(key_path)
    busy = f"{folder}: a voiceid daemon serves this vault; stop it first: systemctl stop voiceid.socket voiceid.service"
    vault = Vault.open(folder, load_device_key(key_path))
    with files.locked(folder / DAEMON_LOCK, exclusive=True, timeout=0.0, busy=busy), vault.frozen() as contents:
        secret = secrets.token_bytes(DEVICE_KEY_BYTES)
        key, copy = DeviceKey(secret), folder / COPY
        if copy.exists():
            files.shred_folder(copy)
        _write_copy(contents, Vault.open(copy, key, create=True))
        files.sync_folder(copy)
        files.sync_folder(folder)
        files.write_atomic(key_path, secret, shred_old=True)
        put_in_place(folder, VaultKeys(key.subkey(Purpose.VAULT)).check)
    ended = {user.template.name: user.credentials for user in contents.users if user.credentials}
    return Rotation(tuple(user.template.name for user in contents.users), ended)


def _write_copy(contents: VaultContents, target: Vault) -> None:
    for user in contents.users:
        name = user.template.name
        target.save_template(user.template)
        for matching in user.template.renewed:
            target.save_matching(name, matching)
        if user.lockout is not None:
            target.save_lockout(name, user.lockout)
    for rp_id, profile in contents.profiles.items():
        target.set_privacy_profile(rp_id, profile)
