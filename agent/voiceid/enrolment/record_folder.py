"""Where the records of a vault lie, and how each is read and written: places, locks, sealing."""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from voiceid.credentials.credential import Credential
from voiceid.credentials.rp_id import check_rp_id
from voiceid.enrolment import files
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.names import name_key
from voiceid.enrolment.records import FORMAT_VERSION, MAX_RECORD, Record, RecordKind, VaultKeys, parse_vault_header
from voiceid.enrolment.template import Template
from voiceid.errors import UnknownUserError, VaultError

FORMAT, LOCK, TEMPLATE, LOCKOUT = "format", "lock", "template", "lockout"

DAEMON_LOCK = ".daemon"
"""Held by the daemon that serves the vault."""


class RecordFolder:
    """The base of :class:`voiceid.enrolment.vault.Vault` and its parts."""

    def __init__(self, folder: Path, keys: VaultKeys) -> None:
        self.folder = folder
        self._keys = keys
        self._users = folder / "users"
        self._relying_parties = folder / "relying-parties"
        self._lock = folder / LOCK

    def _shared(self) -> AbstractContextManager[None]:
        return self._locked(exclusive=False)

    def _exclusive(self) -> AbstractContextManager[None]:
        return self._locked(exclusive=True)

    @contextlib.contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the vault, and be sure that its device key is still the one that this object was opened with."""
        with files.locked(self._lock, exclusive=exclusive):
            header = files.read_file(self.folder / FORMAT, MAX_RECORD)
            if header is not None:
                _, check = parse_vault_header(header, str(self.folder / FORMAT))
                if not hmac.compare_digest(check, self._keys.check):
                    raise VaultError(f"{self.folder}: the device key was changed meanwhile; try again")
            yield

    def _user_folders(self) -> Iterator[Path]:
        with files.explain(self._users):
            folders = sorted(path for path in self._users.iterdir() if is_record(path))
        return (folder for folder in folders if files.exists(folder / TEMPLATE))

    def _folder_of(self, name: str) -> Path:
        return self._users / self._keys.file_name(RecordKind.TEMPLATE, name_key(name))

    def _user_folder(self, name: str) -> Path:
        folder = self._folder_of(name)
        if not files.exists(folder / TEMPLATE):
            raise UnknownUserError(f"{name!r} is not enrolled on this device")
        return folder

    def _template_in(self, folder: Path) -> Template:
        return Template.from_bytes(self._read(folder / TEMPLATE).payload)

    def _matching_path(self, folder: Path, model_sha256: str) -> Path:
        return folder / f"matching-{self._keys.file_name(RecordKind.MATCHING, model_sha256.encode())}"

    def _matching_paths(self, folder: Path) -> list[Path]:
        return sorted(folder.glob("matching-*"))

    def _matchings(self, folder: Path, template: Template, *, strict: bool = False) -> tuple[Matching, ...]:
        """The matching templates of the enrolment ``template``, oldest first; damaged ones are left out, or an error
        if ``strict``.
        """
        found = []
        for path in self._matching_paths(folder):
            try:
                record = self._read(path)
                matching = Matching.from_bytes(record.payload)
            except VaultError:
                if strict:
                    raise
                continue
            if matching.enrolment_id == template.enrolment_id and record.user_id == template.user_id:
                found.append(matching)
        return tuple(sorted(found, key=lambda matching: (matching.created, matching.model_sha256)))

    def _credential_paths(self, folder: Path, credential_id: bytes) -> tuple[Path, Path]:
        suffix = self._keys.file_name(RecordKind.CREDENTIAL, credential_id)
        return folder / f"counter-{suffix}", folder / f"credential-{suffix}"

    def _current_credentials(self, folder: Path, template: Template, *, strict: bool = False) -> dict[Path, Credential]:
        """The credentials of ``template``'s enrolment, by path: a damaged one must not hide the others, and is left
        out, or an error if ``strict``.
        """
        found = {}
        for path in sorted(folder.glob("credential-*")):
            try:
                record, credential = self._credential_in(path)
            except VaultError:
                if strict:
                    raise
                continue
            if credential.enrolment_id == template.enrolment_id and record.user_id == template.user_id:
                found[path] = credential
        return found

    def _credential_in(self, path: Path) -> tuple[Record, Credential]:
        """The credential at ``path``, whose counter can be read too.

        Raises:
            VaultError: one of the two is damaged or missing.
        """
        record = self._read(path)
        self._read(counter_of(path))
        return record, Credential.from_bytes(record.payload)

    def _damaged_credentials(self, folder: Path) -> list[Path]:
        damaged = []
        for path in sorted(folder.glob("credential-*")):
            try:
                self._credential_in(path)
            except VaultError:
                damaged.append(path)
        return damaged

    def _privacy_path(self, rp_id: str) -> Path:
        return self._relying_parties / self._keys.file_name(RecordKind.PRIVACY, check_rp_id(rp_id).encode())

    def _record_paths(self) -> Iterator[Path]:
        """Whatever stands in a record's place: a pipe or a link there is a record that cannot be read."""
        for root in (self._users, self._relying_parties):
            found = (path for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
            yield from sorted(path for path in found if is_record(path))

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


def counter_of(credential: Path) -> Path:
    """Where the counter of the credential at ``credential`` lies."""
    return credential.with_name(credential.name.replace("credential-", "counter-"))


def is_record(path: Path) -> bool:
    """Whether ``path`` is no file under way."""
    return not path.name.startswith(".")
