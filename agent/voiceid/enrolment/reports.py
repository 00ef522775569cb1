"""What the vault tells about users."""

from __future__ import annotations

from dataclasses import dataclass

from voiceid.credentials.credential import Credential
from voiceid.enrolment.template import Template


@dataclass(frozen=True, slots=True)
class UserSummary:
    """What may be listed of a user without touching voice data. ``created`` in Unix seconds, speech in seconds."""

    name: str
    created: int
    net_speech: float
    utterance_count: int
    model_name: str
    models: tuple[str, ...]
    """SHA-256 of every identity model that there is a matching template for, that of the enrolment first."""
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
            models=template.models,
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
