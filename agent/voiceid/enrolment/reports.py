"""What the vault tells about users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from voiceid.credentials.credential import Credential
from voiceid.enrolment.template import Template


@dataclass(frozen=True, slots=True)
class UserSummary:
    """What may be shown of a user without touching voice data: in every answer the same. ``created`` in Unix seconds,
    speech in seconds; ``model_sha256`` in hexadecimal, as ``models``."""

    name: str
    created: int
    net_speech: float
    utterance_count: int
    model_name: str
    model_sha256: str
    models: tuple[str, ...]
    """Of every identity model that there is a matching template for, that of the enrolment first."""
    owner_uid: int
    credential_count: int
    measured_by: tuple[str, ...] = ()
    """SHA-256 of every detector whose scores of the enrolment are known: these can judge relative to this user."""

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
            models=template.models,
            owner_uid=template.owner_uid,
            credential_count=credential_count,
            measured_by=tuple(known.model_sha256 for known in template.known_baselines),
        )

    def needs_renewal(self, model: str | None) -> bool:
        """Whether the identity ``model`` in use (SHA-256; None where that is not known) is none of ``models``."""
        return model is not None and model not in self.models

    def facts(self, model: str | None, detectors: Mapping[str, str]) -> dict[str, Any]:
        """The summary as it is shown, with ``renew``: see :meth:`needs_renewal`.

        Of the ``detectors`` in use that can judge relative to an owner, SHA-256 by role, ``not_relative`` names those
        that cannot with this user, since their scores of the enrolment are not known.
        """
        return {**asdict(self), "renew": self.needs_renewal(model), "not_relative": self._unmeasured_by(detectors)}

    def lacks(self, model: str | None, detectors: Mapping[str, str]) -> bool:
        """Whether a renewal would bring a template for the identity ``model`` or scores by one of the ``detectors``."""
        return self.needs_renewal(model) or bool(self._unmeasured_by(detectors))

    def _unmeasured_by(self, detectors: Mapping[str, str]) -> list[str]:
        return [role for role, sha256 in sorted(detectors.items()) if sha256 not in self.measured_by]


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
