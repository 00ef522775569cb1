"""The credentials of a vault's users and their signature counters."""

from __future__ import annotations

import contextlib
from pathlib import Path

from voiceid.credentials.credential import Credential
from voiceid.enrolment import files
from voiceid.enrolment.record_folder import RecordFolder, counter_of
from voiceid.enrolment.records import RecordKind
from voiceid.enrolment.template import Template
from voiceid.errors import CredentialError, VaultError

MAX_COUNTER = 2**32 - 1
"""WebAuthn signature counters have 32 bits."""

_COUNTER_BYTES = 4


class CredentialRecords(RecordFolder):
    """A part of :class:`voiceid.enrolment.vault.Vault`."""

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
                files.shred(counter_of(path))
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

    def _drop_ended_credentials(self, folder: Path, template: Template) -> tuple[Credential, ...]:
        """Remove the credentials of other enrolments than ``template``'s; damaged ones stay."""
        ended = []
        for path in sorted(set(folder.glob("credential-*")) - set(self._current_credentials(folder, template))):
            with contextlib.suppress(VaultError):
                ended.append(self._credential_in(path)[1])
                files.shred(path)
                files.shred(counter_of(path))
        files.sync_folder(folder)
        return tuple(ended)
