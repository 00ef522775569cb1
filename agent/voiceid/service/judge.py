"""Ceremonies, judged: the lock-out around the one pipeline. Runs in the one scoring thread."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from voiceid.credentials.authenticator import Authenticator, Registered
from voiceid.credentials.envelope import Envelope
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError, UnknownUserError
from voiceid.pipeline import Authentication, AuthenticationRequest, Identification, Pipeline
from voiceid.scoring.policy import not_enrolled
from voiceid.service.lockout import Lockout
from voiceid.service.session import Arming
from voiceid.types import Decision, Outcome, Source, Waveform


@unique
class Answer(StrEnum):
    """All that an ordinary client hears of a decision."""

    ACCEPTED = "accepted"
    DENIED = "denied"
    TRY_AGAIN = "try_again"
    LOCKED = "locked"

    @classmethod
    def of(cls, outcome: Outcome) -> Answer:
        """The answer that stands for ``outcome``."""
        plain = {
            Outcome.ACCEPTED: cls.ACCEPTED,
            Outcome.INCONCLUSIVE: cls.TRY_AGAIN,
            Outcome.LOCKED_OUT: cls.LOCKED,
        }
        return plain.get(outcome, cls.DENIED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a ceremony. ``user`` is who was judged, None for an unknown voice.

    ``retry_after`` goes with the outcome *locked out*: seconds of delay left, 0 where only an admin can end the lock;
    None where nobody in particular is locked.
    """

    decision_id: str
    decision: Decision
    source: Source | None
    user: str | None
    envelope: Envelope | None = None
    registered: Registered | None = None
    retry_after: int | None = None

    @property
    def answer(self) -> Answer:
        return Answer.of(self.decision.outcome)


LOCKED = Decision(Outcome.LOCKED_OUT, ("too many failures",))


class Judge:
    """Judges utterances against ``vault``. :attr:`pipeline` may be replaced between two ceremonies."""

    def __init__(self, pipeline: Pipeline, vault: Vault, device_key: DeviceKey, lockout: Lockout) -> None:
        self.pipeline = pipeline
        self._vault, self._lockout = vault, lockout
        self._authenticator = Authenticator(vault, device_key)

    def precheck(self, user: str, request: AuthenticationRequest | None = None) -> Verdict | None:
        """What can be said before the microphone is listened to: locked, not enrolled; None to go on.

        Raises:
            CredentialError, EnvelopeError, VaultError, ClockError: ``request`` cannot be granted, whatever is said.
            EnrolmentError: the template is of another model: nothing could be judged, so nothing may be charged.
        """
        template = self._template(user)
        if template is None:
            return Verdict(_new_id(), not_enrolled(user), None, user)
        if (report := self._lockout.report(user)).locked:
            return Verdict(_new_id(), LOCKED, None, user, retry_after=report.retry_after)
        self.pipeline.check_template(template)
        if request is not None:
            self._authenticator.check_request(
                user,
                rp_id=request.rp_id,
                nonce=request.nonce,
                credential_id=request.credential_id,
                purpose=request.purpose,
            )
        return None

    def precheck_registration(
        self, user: str, *, rp_id: str, challenge: bytes, user_handle: bytes | None
    ) -> Verdict | None:
        """As :meth:`precheck`, before :meth:`register`.

        Raises:
            CredentialError, VaultError, ClockError: no credential can be made, whatever is said.
            EnrolmentError: as there.
        """
        verdict = self.precheck(user)
        if verdict is None:
            self._authenticator.check_registration(user, rp_id=rp_id, challenge=challenge, user_handle=user_handle)
        return verdict

    def verify(self, waveform: Waveform, user: str) -> Verdict:
        """Decide on ``waveform`` for ``user``."""

        def decide() -> Authentication:
            return Authentication(self.pipeline.decide(waveform, self._template(user), name=user), None)

        return self._armed(waveform, user, decide)

    def authenticate(self, waveform: Waveform, request: AuthenticationRequest) -> Verdict:
        """Decide, and sign on acceptance."""
        return self._armed(
            waveform,
            request.user,
            lambda: self.pipeline.authenticate(waveform, self._vault, self._authenticator, request),
        )

    def register(
        self, waveform: Waveform, user: str, *, rp_id: str, challenge: bytes, user_handle: bytes | None
    ) -> Verdict:
        """Decide, and make a credential on acceptance."""
        verdict = self.verify(waveform, user)
        if not verdict.decision.accepted:
            return verdict
        registered = self._authenticator.register(
            user, rp_id=rp_id, challenge=challenge, decision=verdict.decision, user_handle=user_handle
        )
        return Verdict(verdict.decision_id, verdict.decision, waveform.source, user, registered=registered)

    def withdraw(self, verdict: Verdict) -> None:
        """Take back the credential that ``verdict`` made, if any: it is not handed out."""
        if verdict.registered is not None and verdict.user is not None:
            self._vault.delete_credential(verdict.user, verdict.registered.credential.credential_id)

    def identify(self, waveform: Waveform, arming: Arming | None) -> Verdict:
        """Find out who of the enrolled speaks; sign only for an armed claim.

        Armed, the attempt is charged to everybody who might be meant before it is scored; after it, only the best
        match of a failure keeps the charge.
        """
        templates = [self._vault.load_template(user.name) for user in self._vault.list_users()]
        if arming is None:
            unlocked = [template for template in templates if not self._lockout.report(template.name).locked]
            found = self.pipeline.identify(waveform, unlocked)
            return Verdict(_new_id(), found.decision, waveform.source, found.name)
        charged = [template for template in templates if self._lockout.charge(template.name)]
        if templates and not charged:
            return Verdict(_new_id(), LOCKED, None, None)
        found = self.pipeline.identify(waveform, charged)
        self._settle(charged, found)
        envelope = self._sign(waveform, found, arming) if found.name is not None else None
        return Verdict(_new_id(), found.decision, waveform.source, found.name, envelope)

    def is_owner(self, user: str, uid: int) -> bool:
        """Whether the enrolment of ``user`` belongs to ``uid``."""
        template = self._template(user)
        return template is not None and template.owner_uid == uid

    def _armed(self, waveform: Waveform, user: str, act: Callable[[], Authentication]) -> Verdict:
        """Charge, judge, settle. If judging breaks off, the charge stays."""
        decision_id = _new_id()
        try:
            if not self._lockout.charge(user):
                left = self._lockout.report(user).retry_after
                return Verdict(decision_id, LOCKED, waveform.source, user, retry_after=left)
        except UnknownUserError:
            return Verdict(decision_id, not_enrolled(user), waveform.source, user)
        result = act()
        self._lockout.settle(user, result.decision.outcome)
        return Verdict(decision_id, result.decision, waveform.source, user, result.envelope)

    def _settle(self, charged: Sequence[Template], found: Identification) -> None:
        best = found.candidates[0][0] if found.candidates else None
        for template in charged:
            if found.decision.outcome is Outcome.INCONCLUSIVE or template.name == best:
                self._lockout.settle(template.name, found.decision.outcome)
            else:
                self._lockout.refund(template.name)

    def _sign(self, waveform: Waveform, found: Identification, arming: Arming) -> Envelope | None:
        request = AuthenticationRequest(found.name or "", arming.rp_id, arming.nonce, None, arming.purpose)
        utterance = self.pipeline.prepare(waveform)
        try:
            return self.pipeline.sign(utterance, found.decision, self._vault, self._authenticator, request)
        except CredentialError:
            return None  # accepted, but not registered at this relying party

    def _template(self, user: str) -> Template | None:
        try:
            return self._vault.load_template(user)
        except UnknownUserError:
            return None


def _new_id() -> str:
    return secrets.token_hex(16)
