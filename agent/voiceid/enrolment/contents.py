"""Everything that a vault holds, as values: for a new device key, and for a backup."""

from __future__ import annotations

from dataclasses import dataclass

from voiceid.credentials.credential import Credential
from voiceid.enrolment.template import Template
from voiceid.units.privacy import PrivacyProfile


@dataclass(frozen=True, slots=True)
class UserContents:
    """What a vault holds of one user; ``lockout`` is the state as saved, None if there is none."""

    template: Template
    credentials: tuple[Credential, ...]
    lockout: bytes | None


@dataclass(frozen=True, slots=True)
class VaultContents:
    """Users by name, and the privacy profiles that were set, by relying party id."""

    users: tuple[UserContents, ...]
    profiles: dict[str, PrivacyProfile]
