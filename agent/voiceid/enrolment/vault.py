"""The vault: a folder (0700) of encrypted records (0600), safe against crashes, two processes and loose umasks.

::

    vault/format                                   version and key check
    vault/lock                                     flock: writers alone, readers together
    vault/users/<hmac of name>/template            voice template
                               lockout             state of the lock-out
                               credential-<hmac>   a registered credential
                               counter-<hmac>      its signature counter
    vault/relying-parties/<hmac of rp id>          privacy profile

File names are keyed hashes: without the device key the folder tells how many users and credentials there are, no more.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from voiceid import cbor
from voiceid.credentials.credential import Credential
from voiceid.credentials.keys import DeviceKey, Purpose
from voiceid.credentials.profile import profile_from_table
from voiceid.credentials.rp_id import check_rp_id
from voiceid.enrolment import files
from voiceid.enrolment.migration import migrate
from voiceid.enrolment.names import name_key
from voiceid.enrolment.records import (
    FORMAT_VERSION,
    MAX_RECORD,
    NO_USER,
    Record,
    RecordKind,
    VaultKeys,
    parse_vault_header,
    vault_header,
)
from voiceid.enrolment.reports import DeletionReport, UserSummary
from voiceid.enrolment.template import Template
from voiceid.errors import CredentialError, EnrolmentError, UnknownUserError, VaultError, VoiceIdError
from voiceid.units.privacy import PrivacyProfile

MAX_COUNTER = 2**32 - 1
"""WebAuthn signature counters have 32 bits."""

_FORMAT, _TEMPLATE, _LOCKOUT = "format", "template", "lockout"
_COUNTER_BYTES = 4

OWN_FILES = frozenset({"lock", "device.key", "users", "relying-parties"})
"""What may be in a folder that is to become a vault: the remains of an interrupted beginning."""


class Vault:
    """Enrolments and credentials at rest. Every method is atomic and may be called from several processes.

    All methods raise :class:`VaultError` for a damaged, read-only or full vault.
    """

    def __init__(self, folder: Path, keys: VaultKeys) -> None:
        """Use :meth:`open`."""
        self.folder = folder
        self._keys = keys
        self._users = folder / "users"
        self._relying_parties = folder / "relying-parties"
        self._lock = folder / "lock"

    @classmethod
    def open(cls, folder: Path, device_key: DeviceKey, *, create: bool = False) -> Vault:
        """Open the vault in ``folder``, bring an older one up to date, and clear away what a crash left.

        With ``create`` a missing vault is made.

        Raises:
            VaultError: no vault there, wrong device key, newer version, damaged, or a folder with other things in it.
        """
        vault = cls(folder, VaultKeys(device_key.subkey(Purpose.VAULT)))
        header = folder / _FORMAT
        if not cls.exists(folder):
            if not create:
                raise VaultError(f"{folder}: no vault here; enrol somebody first")
            files.check_vacant(folder, OWN_FILES)
            files.make_private_folder(folder)
        writable = os.access(folder, os.W_OK)
        with files.locked(vault._lock, exclusive=writable):
            data = files.read_file(header, MAX_RECORD)
            if data is None:
                files.write_atomic(header, vault_header(FORMAT_VERSION, vault._keys.check))
            version, check = parse_vault_header(data, str(header)) if data else (FORMAT_VERSION, vault._keys.check)
            if not hmac.compare_digest(check, vault._keys.check):
                raise VaultError(
                    f"{folder}: made with another device key; restore that key, or use another vault folder"
                )
            if version < FORMAT_VERSION or writable:
                for subfolder in (folder, vault._users, vault._relying_parties):
                    files.make_private_folder(subfolder)
                files.remove_leftovers(folder)
            if version < FORMAT_VERSION:
                vault._migrate()
                files.write_atomic(header, vault_header(FORMAT_VERSION, vault._keys.check))
        return vault

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether ``folder`` holds a vault."""
        return files.exists(folder / _FORMAT)

    def check_writable(self) -> None:
        """Fail before somebody speaks where nothing could be stored afterwards."""
        files.check_writable(self.folder, self._users, self._relying_parties)

    def list_users(self) -> tuple[UserSummary, ...]:
        """Everyone enrolled, by name. Damaged templates and credentials are left out: see :meth:`problems`."""
        summaries = []
        with self._shared():
            for folder in self._user_folders():
                try:
                    template = self._template_in(folder)
                except VaultError:
                    continue
                summaries.append(UserSummary.of(template, len(self._current_credentials(folder, template))))
        return tuple(sorted(summaries, key=lambda summary: summary.name))

    def problems(self) -> tuple[str, ...]:
        """One line for each record that cannot be opened; empty for a sound vault."""
        found = []
        with self._shared():
            for path in self._record_paths():
                try:
                    if path.name == _TEMPLATE:
                        self._template_in(path.parent)
                    else:
                        self._read(path)
                except VoiceIdError as problem:
                    found.append(str(problem))
        return tuple(found)

    def load_template(self, name: str) -> Template:
        """The template of ``name``.

        Raises:
            UnknownUserError: not enrolled.
            EnrolmentError: no possible name.
        """
        with self._shared():
            return self._template_in(self._user_folder(name))

    def save_template(self, template: Template, *, replace: bool = False) -> tuple[Credential, ...]:
        """Store ``template``; returns the credentials that a new enrolment of the same user ended.

        With ``replace`` it takes the place of the user's former one, with the same user id. The lock-out state stays.
        An adapted template keeps its enrolment id and ends no credential.

        Raises:
            EnrolmentError: the user is enrolled and ``replace`` is not set, or the user id is another.
        """
        folder = self._users / self._keys.file_name(RecordKind.TEMPLATE, name_key(template.name))
        with self._exclusive():
            path = folder / _TEMPLATE
            if files.exists(path):
                former = self._template_in(folder)
                if not replace:
                    raise EnrolmentError(f"{former.name!r} is enrolled already; delete or re-enrol that user")
                if former.user_id != template.user_id:
                    raise EnrolmentError(f"re-enrolling {former.name!r} must keep the user id of the former template")
            files.make_private_folder(folder)
            files.sync_folder(self._users)
            record = Record(FORMAT_VERSION, RecordKind.TEMPLATE, template.user_id, template.to_bytes())
            self._write(path, record, shred_old=True)
            return self._drop_ended_credentials(folder, template)

    def pseudonym(self, name: str) -> str:
        """What stands for ``name``, enrolled or not, in logs: 12 hexadecimal digits of the name of the user's folder.

        Raises:
            EnrolmentError: no possible name.
        """
        return self._keys.file_name(RecordKind.TEMPLATE, name_key(name))[:12]

    def delete_user(self, name: str) -> DeletionReport:
        """Remove template, credentials, counters and lock-out state of ``name``, damaged or not, and report them.

        The user is gone at once, even if the machine stops while the files are overwritten.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            credentials, unreadable = [], 0
            paths = sorted(path for path in folder.iterdir() if not path.name.startswith(files.TEMPORARY_PREFIX))
            for path in paths:
                try:
                    record = self._read(path)
                    if record.kind is RecordKind.CREDENTIAL:
                        credentials.append(Credential.from_bytes(record.payload))
                except VaultError:
                    unreadable += 1
            grave = self._users / f"{files.TEMPORARY_PREFIX}{secrets.token_hex(8)}"
            with files.explain(folder):
                folder.rename(grave)
                files.sync_folder(self._users)
            sizes = files.shred_folder(grave)
        names = [path.name for path in paths]
        return DeletionReport(
            name=name,
            template=_TEMPLATE in names,
            credentials=tuple(credentials),
            counters=sum(entry.startswith("counter-") for entry in names),
            lockout=_LOCKOUT in names,
            unreadable=unreadable,
            files=len(sizes),
            bytes_overwritten=sum(sizes),
        )

    def show_user(self, name: str) -> UserSummary:
        """What may be shown of ``name``.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._shared():
            folder = self._user_folder(name)
            template = self._template_in(folder)
            return UserSummary.of(template, len(self._current_credentials(folder, template)))

    def credentials(self, name: str) -> tuple[Credential, ...]:
        """The sound credentials of ``name``'s current enrolment, oldest first.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._shared():
            folder = self._user_folder(name)
            found = self._current_credentials(folder, self._template_in(folder)).values()
        return tuple(sorted(found, key=lambda credential: (credential.created, credential.credential_id)))

    def damaged_credentials(self, name: str) -> int:
        """How many credentials of ``name`` cannot be used, since their record or their counter cannot be read.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._shared():
            return len(self._damaged_credentials(self._user_folder(name)))

    def delete_damaged_credentials(self, name: str) -> int:
        """Remove what is left of the damaged credentials of ``name``; returns how many there were.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            damaged = self._damaged_credentials(folder)
            for path in damaged:
                files.shred(path)
                files.shred(_counter_of(path))
            files.sync_folder(folder)
        return len(damaged)

    def save_credential(self, name: str, credential: Credential) -> None:
        """Store a new credential of ``name`` with its signature counter at 0.

        Raises:
            UnknownUserError: not enrolled.
            CredentialError: made by another enrolment, or stored already.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            template = self._template_in(folder)
            if credential.enrolment_id != template.enrolment_id:
                raise CredentialError("the credential belongs to another enrolment than the current one")
            counter, record = self._credential_paths(folder, credential.credential_id)
            if files.exists(record):
                raise CredentialError("the credential is stored already")
            self._write_payload(counter, RecordKind.COUNTER, template.user_id, bytes(_COUNTER_BYTES))
            self._write_payload(record, RecordKind.CREDENTIAL, template.user_id, credential.to_bytes())

    def delete_credential(self, name: str, credential_id: bytes) -> Credential:
        """Revoke a credential: remove it and its counter; returns what it was.

        Raises:
            UnknownUserError: not enrolled.
            CredentialError: ``name`` has no such credential.
        """
        with self._exclusive():
            counter, path = self._credential_paths(self._user_folder(name), credential_id)
            if not files.exists(path):
                raise CredentialError("unknown credential: not this user's, or revoked")
            credential = Credential.from_bytes(self._read(path).payload)
            files.shred(path)
            files.shred(counter)
            files.sync_folder(path.parent)
        return credential

    def next_counter(self, credential_id: bytes) -> int:
        """The next signature counter of a credential: strictly increasing, from 1, on disk before it is returned.

        Raises:
            CredentialError: no such credential, or its 2**32 - 1 signatures are used up.
        """
        with self._exclusive():
            for folder in self._user_folders():
                path, _ = self._credential_paths(folder, credential_id)
                if files.exists(path):
                    record = self._read(path)
                    value = int.from_bytes(record.payload, "big") + 1
                    if value > MAX_COUNTER:
                        raise CredentialError("the credential's signature counter is used up; register a new one")
                    self._write_payload(path, record.kind, record.user_id, value.to_bytes(_COUNTER_BYTES, "big"))
                    return value
        raise CredentialError("unknown credential: no counter of that id in this vault")

    def load_lockout(self, name: str) -> bytes | None:
        """The lock-out state of ``name`` as saved, None if there is none.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._shared():
            path = self._user_folder(name) / _LOCKOUT
            return self._read(path).payload if files.exists(path) else None

    def save_lockout(self, name: str, state: bytes) -> None:
        """Store the lock-out state of ``name``; on disk on return.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            self._write_payload(folder / _LOCKOUT, RecordKind.LOCKOUT, self._template_in(folder).user_id, state)

    def privacy_profile(self, rp_id: str) -> PrivacyProfile:
        """What may be shared with ``rp_id``: the profile that was set, else the default."""
        path = self._privacy_path(rp_id)
        with self._shared():
            if not files.exists(path):
                return PrivacyProfile()
            return _parse_profile(self._read(path).payload)[1]

    def set_privacy_profile(self, rp_id: str, profile: PrivacyProfile) -> None:
        """Choose what may be shared with ``rp_id`` from now on."""
        with self._exclusive():
            payload = cbor.encode({"rp_id": rp_id, "profile": profile.to_dict()})
            self._write_payload(self._privacy_path(rp_id), RecordKind.PRIVACY, NO_USER, payload)

    def privacy_profiles(self) -> dict[str, PrivacyProfile]:
        """All profiles that were set, by relying party id."""
        with self._shared():
            records = [self._read(path) for path in sorted(self._relying_parties.iterdir()) if _is_record(path)]
        return dict(sorted((_parse_profile(record.payload) for record in records), key=lambda pair: pair[0]))

    def _shared(self) -> AbstractContextManager[None]:
        return files.locked(self._lock, exclusive=False)

    def _exclusive(self) -> AbstractContextManager[None]:
        return files.locked(self._lock, exclusive=True)

    def _user_folders(self) -> Iterator[Path]:
        with files.explain(self._users):
            folders = sorted(path for path in self._users.iterdir() if _is_record(path))
        return (folder for folder in folders if files.exists(folder / _TEMPLATE))

    def _user_folder(self, name: str) -> Path:
        folder = self._users / self._keys.file_name(RecordKind.TEMPLATE, name_key(name))
        if not files.exists(folder / _TEMPLATE):
            raise UnknownUserError(f"{name!r} is not enrolled on this device")
        return folder

    def _template_in(self, folder: Path) -> Template:
        return Template.from_bytes(self._read(folder / _TEMPLATE).payload)

    def _credential_paths(self, folder: Path, credential_id: bytes) -> tuple[Path, Path]:
        suffix = self._keys.file_name(RecordKind.CREDENTIAL, credential_id)
        return folder / f"counter-{suffix}", folder / f"credential-{suffix}"

    def _current_credentials(self, folder: Path, template: Template) -> dict[Path, Credential]:
        """The sound credentials of ``template``'s enrolment, by path: a damaged one must not hide the others."""
        found = {}
        for path in sorted(folder.glob("credential-*")):
            with contextlib.suppress(VaultError):
                record, credential = self._credential_in(path)
                if credential.enrolment_id == template.enrolment_id and record.user_id == template.user_id:
                    found[path] = credential
        return found

    def _credential_in(self, path: Path) -> tuple[Record, Credential]:
        """The credential at ``path``, whose counter can be read too.

        Raises:
            VaultError: one of the two is damaged or missing.
        """
        record = self._read(path)
        self._read(_counter_of(path))
        return record, Credential.from_bytes(record.payload)

    def _damaged_credentials(self, folder: Path) -> list[Path]:
        damaged = []
        for path in sorted(folder.glob("credential-*")):
            try:
                self._credential_in(path)
            except VaultError:
                damaged.append(path)
        return damaged

    def _drop_ended_credentials(self, folder: Path, template: Template) -> tuple[Credential, ...]:
        """Remove the credentials of other enrolments than ``template``'s; damaged ones stay."""
        ended = []
        for path in sorted(set(folder.glob("credential-*")) - set(self._current_credentials(folder, template))):
            with contextlib.suppress(VaultError):
                ended.append(self._credential_in(path)[1])
                files.shred(path)
                files.shred(_counter_of(path))
        files.sync_folder(folder)
        return tuple(ended)

    def _privacy_path(self, rp_id: str) -> Path:
        return self._relying_parties / self._keys.file_name(RecordKind.PRIVACY, check_rp_id(rp_id).encode())

    def _record_paths(self) -> Iterator[Path]:
        for root in (self._users, self._relying_parties):
            yield from sorted(path for path in root.rglob("*") if path.is_file() and _is_record(path))

    def _read(self, path: Path) -> Record:
        data = files.read_file(path, MAX_RECORD)
        if data is None:
            raise VaultError(f"{path}: the record is missing; restore it from a backup")
        return self._keys.unseal(data, self._place(path))

    def _write(self, path: Path, record: Record, *, shred_old: bool = False) -> None:
        files.write_atomic(path, self._keys.seal(record, self._place(path)), shred_old=shred_old)

    def _write_payload(self, path: Path, kind: RecordKind, user_id: bytes, payload: bytes) -> None:
        self._write(path, Record(FORMAT_VERSION, kind, user_id, payload))

    def _place(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _migrate(self) -> None:
        owner = self.folder.stat().st_uid
        for path in self._record_paths():
            record = self._read(path)
            if record.version < FORMAT_VERSION:
                self._write(path, migrate(record, owner_uid=owner), shred_old=True)


def _counter_of(credential: Path) -> Path:
    return credential.with_name(credential.name.replace("credential-", "counter-"))


def _is_record(path: Path) -> bool:
    return not path.name.startswith(".")


def _parse_profile(payload: bytes) -> tuple[str, PrivacyProfile]:
    table = cbor.decode(payload, where="privacy record", error=VaultError)
    cbor.check_fields(table, {"rp_id": str, "profile": dict}, where="privacy record", error=VaultError)
    return table["rp_id"], profile_from_table(table["profile"], where="privacy record", error=VaultError)
