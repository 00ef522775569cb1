"""What the vault tells about users."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from voiceid.credentials.credential import Credential
from voiceid.enrolment.template import Template


@dataclass(frozen=True, slots=True)
class UserSummary:
    """What may be shown of a user without touching voice data: in every answer the same. ``created`` in Unix seconds,
    speech in seconds; ``model_sha256`` in hexadecimal."""

    name: str
    created: int
    net_speech: float
    utterance_count: int
    model_name: str
    model_sha256: str
    owner_uid: int
    credential_count: int

    @classmethod
    def of(cls, template: Template, credential_count: int) -> UserSummary:
        """The summary of ``template``."""
        return cls(
            name=template.name,
            created=template.created,
            net_speech=template.net_speech,
            utterance_count=template.utterance_count,
            model_name=template.model_name,
            model_sha256=template.model_sha256,
            owner_uid=template.owner_uid,
            credential_count=credential_count,
        )


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """What deleting a user removed."""

    name: str
    template: bool
    credentials: tuple[Credential, ...]
    counters: int
    lockout: bool
    unreadable: int
    """Damaged records, removed too."""
    files: int
    bytes_overwritten: int

    def facts(self) -> dict[str, Any]:
        """The report as it is shown."""
        return {**asdict(self), "credentials": [credential.facts(self.name) for credential in self.credentials]}
