"""Opening the vault that the settings name, with its device key."""

from __future__ import annotations

import contextlib
import hmac
import os
from pathlib import Path

from voiceid.credentials.keys import DeviceKey, Purpose, create_device_key, load_device_key, systemd_credential
from voiceid.enrolment import files
from voiceid.enrolment.files import check_vacant, make_private_folder
from voiceid.enrolment.record_folder import LOCK
from voiceid.enrolment.vault import OWN_FILES, Vault
from voiceid.errors import CredentialError, VaultError
from voiceid.settings import PathSettings


def open_vault(paths: PathSettings, *, create: bool = False) -> tuple[Vault, DeviceKey]:
    """The vault and its device key; with ``create`` both are made if there is no vault yet.

    A key is never made for a vault that exists: it could not open it.

    Raises:
        VaultError: no vault, wrong key, damaged, newer, read-only, or disk full.
        CredentialError: the device key is missing, readable by others, or of the wrong length.
    """
    folder = paths.vault
    key_path = paths.device_key or folder / "device.key"
    if not Vault.exists(folder):
        if os.path.lexists(folder) and not folder.is_dir():
            raise VaultError(f"{folder}: is not a folder, as a vault is; name another with --vault or [paths] vault")
        if not create:
            raise VaultError(f"{folder}: no vault here; enrol somebody first")
        check_vacant(folder, OWN_FILES)
        make_private_folder(folder)
        if systemd_credential() is None and not key_path.exists():
            if not key_path.parent.exists():
                make_private_folder(key_path.parent)
            try:
                create_device_key(key_path)
            except CredentialError:
                if not key_path.exists():  # else another process began this vault at the same time
                    raise
    device_key = load_device_key(key_path)
    try:
        vault = Vault.open(folder, device_key, create=create)
    except VaultError:
        former, device_key = device_key, load_device_key(key_path)
        if hmac.compare_digest(former.subkey(Purpose.VAULT), device_key.subkey(Purpose.VAULT)):
            raise
        vault = Vault.open(folder, device_key, create=create)  # it was changed between reading key and vault
    _shred_former_keys(vault, key_path)
    return vault, device_key


def _shred_former_keys(vault: Vault, key_path: Path) -> None:
    """Away with what a power cut left beside the key while it was changed, where this user may."""
    if files.leftovers_of(key_path):
        with contextlib.suppress(VaultError), files.locked(vault.folder / LOCK, exclusive=True):
            for path in files.leftovers_of(key_path):
                files.shred(path)
