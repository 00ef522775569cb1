"""The vault: a folder (0700) of encrypted records (0600), safe against crashes, two processes and loose umasks.

::

    vault/format                                   version and key check
    vault/lock                                     flock: writers alone, readers together
    vault/users/<hmac of name>/template            voice template
                               matching-<hmac>     matching template for another identity model
                               lockout             state of the lock-out
                               credential-<hmac>   a registered credential
                               counter-<hmac>      its signature counter
    vault/relying-parties/<hmac of rp id>          privacy profile

File names are keyed hashes: without the device key the folder tells how many users and credentials there are, no more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from voiceid import cbor
from voiceid.credentials.credential import Credential
from voiceid.credentials.keys import DeviceKey, Purpose
from voiceid.credentials.profile import profile_from_table
from voiceid.enrolment import files
from voiceid.enrolment.contents import UserContents, VaultContents
from voiceid.enrolment.credential_records import CredentialRecords
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.migration import migrate
from voiceid.enrolment.names import name_key
from voiceid.enrolment.record_folder import FORMAT, LOCKOUT, TEMPLATE, is_record
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
from voiceid.enrolment.rekeying import clear_remains, put_in_place
from voiceid.enrolment.reports import DeletionReport, UserSummary
from voiceid.enrolment.template import Template
from voiceid.errors import EnrolmentError, VaultError, VoiceIdError
from voiceid.units.privacy import PrivacyProfile

MAX_MATCHINGS = 3
"""Matching templates that a user may have beside that of the enrolment: no more voice data than a rollback needs."""

OWN_FILES = frozenset({"lock", "device.key", "users", "relying-parties"})
"""What may be in a folder that is to become a vault: the remains of an interrupted beginning."""


class Vault(CredentialRecords):
    """Enrolments and credentials at rest. Every method is atomic and may be called from several processes.

    All methods raise :class:`VaultError` for a damaged, read-only or full vault.
    """

    @classmethod
    def open(cls, folder: Path, device_key: DeviceKey, *, create: bool = False) -> Vault:
        """Open the vault in ``folder``, bring an older one up to date, end an interrupted change of the device key, and
        clear away what a crash left.

        With ``create`` a missing vault is made.

        Raises:
            VaultError: no vault there, wrong device key, newer version, damaged, or a folder with other things in it.
        """
        vault = cls(folder, VaultKeys(device_key.subkey(Purpose.VAULT)))
        header = folder / FORMAT
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
                if writable and put_in_place(folder, vault._keys.check):
                    return vault
                raise VaultError(
                    f"{folder}: made with another device key; restore that key, or use another vault folder"
                )
            if version < FORMAT_VERSION or writable:
                for subfolder in (folder, vault._users, vault._relying_parties):
                    files.make_private_folder(subfolder)
                files.remove_leftovers(folder)
                clear_remains(folder)
            if version < FORMAT_VERSION:
                vault._migrate()
                files.write_atomic(header, vault_header(FORMAT_VERSION, vault._keys.check))
        return vault

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether ``folder`` holds a vault."""
        return files.exists(folder / FORMAT)

    def check_writable(self) -> None:
        """Fail before somebody speaks where nothing could be stored afterwards."""
        files.check_writable(self.folder, self._users, self._relying_parties)

    def list_users(self) -> tuple[UserSummary, ...]:
        """Everyone enrolled, by name. Damaged templates and credentials are left out: see :meth:`problems`."""
        summaries = []
        with self._shared():
            for folder in self._user_folders():
                try:
                    template = self._whole_template(folder)
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
                    if path.name == TEMPLATE:
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
            return self._whole_template(self._user_folder(name))

    def save_template(self, template: Template, *, replace: bool = False) -> tuple[Credential, ...]:
        """Store ``template``; returns the credentials that a new enrolment of the same user ended.

        With ``replace`` it takes the place of the user's former one, with the same user id. The lock-out state stays.
        An adapted template keeps its enrolment id and ends no credential. Its ``renewed`` ones are not stored: see
        :meth:`save_matching`.

        Raises:
            EnrolmentError: the user is enrolled and ``replace`` is not set, or the user id is another.
        """
        folder = self._folder_of(template.name)
        with self._exclusive():
            path = folder / TEMPLATE
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
            self._drop_matchings(folder, keep=self._matchings(folder, template))
            return self._drop_ended_credentials(folder, template)

    def save_matching(self, name: str, matching: Matching) -> None:
        """Store a matching template of ``name`` beside the enrolment's and those for other models; no credential ends.

        It replaces one for the same model. Beyond :data:`MAX_MATCHINGS` the oldest goes.

        Raises:
            UnknownUserError: not enrolled.
            EnrolmentError: made for another enrolment, or for the very model of the enrolment.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            template = self._template_in(folder)
            if matching.enrolment_id != template.enrolment_id or matching.model_sha256 == template.model_sha256:
                raise EnrolmentError(f"the matching template does not belong beside this enrolment of {name!r}")
            path = self._matching_path(folder, matching.model_sha256)
            record = Record(FORMAT_VERSION, RecordKind.MATCHING, template.user_id, matching.to_bytes())
            self._write(path, record, shred_old=True)
            others = [m for m in self._matchings(folder, template) if m.model_sha256 != matching.model_sha256]
            self._drop_matchings(folder, keep=(matching, *others[-(MAX_MATCHINGS - 1) :]))

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
            template=TEMPLATE in names,
            credentials=tuple(credentials),
            counters=sum(entry.startswith("counter-") for entry in names),
            lockout=LOCKOUT in names,
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
            template = self._whole_template(folder)
            return UserSummary.of(template, len(self._current_credentials(folder, template)))

    def load_lockout(self, name: str) -> bytes | None:
        """The lock-out state of ``name`` as saved, None if there is none.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._shared():
            path = self._user_folder(name) / LOCKOUT
            return self._read(path).payload if files.exists(path) else None

    def save_lockout(self, name: str, state: bytes) -> None:
        """Store the lock-out state of ``name``; on disk on return.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._exclusive():
            folder = self._user_folder(name)
            self._write_payload(folder / LOCKOUT, RecordKind.LOCKOUT, self._template_in(folder).user_id, state)

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
            return self._profiles()

    def contents(self) -> VaultContents:
        """Everything in the vault, read at one moment; ended credentials are left out."""
        with self._shared():
            return self._contents()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[VaultContents]:
        """As :meth:`contents`, while nobody else can read or change the vault."""
        with self._exclusive():
            yield self._contents()

    def _contents(self) -> VaultContents:
        users = []
        for folder in self._user_folders():
            template = self._template_in(folder)
            template = dataclasses.replace(template, renewed=self._matchings(folder, template, strict=True))
            credentials = tuple(self._current_credentials(folder, template, strict=True).values())
            lockout = folder / LOCKOUT
            state = self._read(lockout).payload if files.exists(lockout) else None
            users.append(UserContents(template, credentials, state))
        return VaultContents(tuple(sorted(users, key=lambda user: user.template.name)), self._profiles())

    def _whole_template(self, folder: Path) -> Template:
        template = self._template_in(folder)
        return dataclasses.replace(template, renewed=self._matchings(folder, template))

    def _drop_matchings(self, folder: Path, *, keep: Sequence[Matching]) -> None:
        kept = {self._matching_path(folder, matching.model_sha256) for matching in keep}
        for path in set(self._matching_paths(folder)) - kept:
            files.shred(path)
        files.sync_folder(folder)

    def _profiles(self) -> dict[str, PrivacyProfile]:
        records = [self._read(path) for path in sorted(self._relying_parties.iterdir()) if is_record(path)]
        return dict(sorted((_parse_profile(record.payload) for record in records), key=lambda pair: pair[0]))

    def _migrate(self) -> None:
        owner = self.folder.stat().st_uid
        for path in self._record_paths():
            record = self._read(path)
            if record.version < FORMAT_VERSION:
                self._write(path, migrate(record, owner_uid=owner), shred_old=True)


def _parse_profile(payload: bytes) -> tuple[str, PrivacyProfile]:
    table = cbor.decode(payload, where="privacy record", error=VaultError)
    cbor.check_fields(table, {"rp_id": str, "profile": dict}, where="privacy record", error=VaultError)
    return table["rp_id"], profile_from_table(table["profile"], where="privacy record", error=VaultError)
