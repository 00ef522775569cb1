"""Ceremonies, judged: the lock-out around the one pipeline. Runs in the one scoring thread."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from enum import StrEnum, unique

from voiceid.credentials.authenticator import Authenticator, Registered
from voiceid.credentials.envelope import Envelope
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError, UnknownUserError, VaultError, VoiceIdError
from voiceid.pipeline import Authentication, AuthenticationRequest, Examined, Identification, Pipeline
from voiceid.scoring.policy import not_enrolled
from voiceid.service.attempt import Attempt, Breakable, Candidate, Kept
from voiceid.service.lockout import Lockout
from voiceid.service.schema import Fault
from voiceid.service.session import Arming
from voiceid.types import Decision, Outcome, Source, Waveform

_log = logging.getLogger(__name__)


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
    early: bool = False
    """Whether the decision was ready before the end of the utterance was certain."""

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

    def check_credential(self, request: AuthenticationRequest) -> None:
        """Insist on a credential of the user at the relying party, in the same words for whatever is amiss: who may ask
        for the relying party does not learn who else is enrolled, locked or damaged here.

        Raises:
            CredentialError: not enrolled, not registered there, or what is stored of it cannot be read.
        """
        try:
            self._authenticator.check_credential(request.user, rp_id=request.rp_id, credential_id=request.credential_id)
        except (UnknownUserError, CredentialError, VaultError) as error:
            if isinstance(error, VaultError):
                _log.error("authenticate: %s", error)
            raise CredentialError(Fault.CREDENTIAL.meaning) from error

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

    def examine_early(
        self, candidate: Candidate, attempt: Attempt, user: str, *, request: AuthenticationRequest | None = None
    ) -> None:
        """Charge ``attempt`` and keep in it what ``candidate`` shows of ``user``, with the units for ``request``.

        Nothing follows from it, nothing is told. What fails here fails again, and is told, when the end is certain.
        """

        def examine(pipeline: Pipeline, watch: Breakable) -> Kept | None:
            template = self._template(user)
            if template is None or not self._charge(attempt, [user]):
                return None
            examined = pipeline.examine(candidate.waveform, template, watch=watch)
            if request is not None:
                examined = self._with_units(pipeline, examined, request.rp_id, watch)
            return Kept(pipeline, candidate.waveform, (template,), examined)

        self._early(candidate, attempt, examine)

    def identify_early(self, candidate: Candidate, attempt: Attempt, arming: Arming | None) -> None:
        """As :meth:`examine_early`, before :meth:`identify`."""

        def examine(pipeline: Pipeline, watch: Breakable) -> Kept | None:
            meant = self._meant(attempt, arming)
            if not meant:
                return None
            found = pipeline.identify(candidate.waveform, meant, watch=watch)
            examined = Examined(found.decision, None)
            if arming is not None and found.name is not None:
                examined = Examined(found.decision, pipeline.prepare(candidate.waveform))
                examined = self._with_units(pipeline, examined, arming.rp_id, watch)
            return Kept(pipeline, candidate.waveform, tuple(meant), examined, found)

        self._early(candidate, attempt, examine)

    def verify(self, waveform: Waveform, user: str, *, attempt: Attempt | None = None) -> Verdict:
        """Decide on ``waveform`` for ``user``."""
        attempt, pipeline = attempt or Attempt(), self.pipeline

        def decide() -> Authentication:
            template = self._template(user)
            kept = attempt.recall(pipeline, waveform, [template]) if template is not None else None
            decision = kept.examined.decision if kept else pipeline.decide(waveform, template, name=user)
            return Authentication(decision, None)

        return self._armed(waveform, user, attempt, decide)

    def authenticate(
        self, waveform: Waveform, request: AuthenticationRequest, *, attempt: Attempt | None = None
    ) -> Verdict:
        """Decide, and sign on acceptance."""
        attempt, pipeline = attempt or Attempt(), self.pipeline

        def known(template: Template) -> Examined | None:
            kept = attempt.recall(pipeline, waveform, [template])
            return kept.examined if kept else None

        return self._armed(
            waveform,
            request.user,
            attempt,
            lambda: pipeline.authenticate(waveform, self._vault, self._authenticator, request, known=known),
        )

    def register(
        self,
        waveform: Waveform,
        user: str,
        *,
        rp_id: str,
        challenge: bytes,
        user_handle: bytes | None,
        attempt: Attempt | None = None,
    ) -> Verdict:
        """Decide, and make a credential on acceptance."""
        verdict = self.verify(waveform, user, attempt=attempt)
        if not verdict.decision.accepted:
            return verdict
        registered = self._authenticator.register(
            user, rp_id=rp_id, challenge=challenge, decision=verdict.decision, user_handle=user_handle
        )
        return replace(verdict, registered=registered)

    def withdraw(self, verdict: Verdict) -> None:
        """Take back the credential that ``verdict`` made, if any: it is not handed out."""
        if verdict.registered is not None and verdict.user is not None:
            self._vault.delete_credential(verdict.user, verdict.registered.credential.credential_id)

    def identify(self, waveform: Waveform, arming: Arming | None, *, attempt: Attempt | None = None) -> Verdict:
        """Find out who of the enrolled speaks; sign only for an armed claim.

        Armed, the attempt is charged to everybody who might be meant before it is scored; after it, only the best
        match of a failure keeps the charge. An ``attempt`` that was charged is settled, whether still armed or not.
        """
        attempt, pipeline = attempt or Attempt(), self.pipeline
        meant = self._meant(attempt, arming)
        if attempt.charges and not attempt.charged:
            return Verdict(_new_id(), LOCKED, None, None)
        kept = attempt.recall(pipeline, waveform, meant)
        found = kept.identification if kept and kept.identification else pipeline.identify(waveform, meant)
        if attempt.charges:
            self._settle(meant, found)
        envelope = None
        if arming is not None and found.name is not None:
            examined = kept.examined if kept else Examined(found.decision, None)
            envelope = self._sign(pipeline, waveform, examined, arming, found.name)
        return Verdict(_new_id(), found.decision, waveform.source, found.name, envelope, early=attempt.early)

    def abandon(self, attempt: Attempt) -> None:
        """What ``attempt`` to identify was charged for is never delivered: it counts as inconclusive for everybody."""
        for name in attempt.charged:
            with contextlib.suppress(VaultError):  # the charge stays
                self._lockout.settle(name, Outcome.INCONCLUSIVE)

    def is_owner(self, user: str, uid: int) -> bool:
        """Whether the enrolment of ``user`` belongs to ``uid``."""
        template = self._template(user)
        return template is not None and template.owner_uid == uid

    def _early(
        self, candidate: Candidate, attempt: Attempt, examine: Callable[[Pipeline, Breakable], Kept | None]
    ) -> None:
        if candidate.void.is_set():
            return
        try:
            attempt.kept = examine(self.pipeline, Breakable(candidate.void))
        except (CancelledError, VoiceIdError):
            return
        except Exception:
            _log.exception("examining early failed")

    def _charge(self, attempt: Attempt, names: Sequence[str]) -> tuple[str, ...]:
        """Charge ``attempt`` to each of ``names`` that it was not offered to, on disk on return; who is charged."""
        for name in names:
            if name not in attempt.charges:
                attempt.charges[name] = self._lockout.charge(name)
        return attempt.charged

    def _meant(self, attempt: Attempt, arming: Arming | None) -> list[Template]:
        """The templates of everybody who may be meant, charged where it counts."""
        templates = [self._vault.load_template(user.name) for user in self._vault.list_users()]
        if arming is None and not attempt.charges:
            return [template for template in templates if not self._lockout.report(template.name).locked]
        charged = self._charge(attempt, [template.name for template in templates])
        return [template for template in templates if template.name in charged]

    def _with_units(self, pipeline: Pipeline, examined: Examined, rp_id: str, watch: Breakable) -> Examined:
        """``examined`` with the units that ``rp_id`` may have, if it accepts."""
        if not examined.decision.accepted or examined.utterance is None:
            return examined
        with watch.stage("units"):
            units = pipeline.speech_units(examined.utterance, self._vault.privacy_profile(rp_id))
        spent, before = watch.timings()["units"], examined.decision.timings
        timings = before | {"units": spent, "total": before["total"] + spent}
        return Examined(replace(examined.decision, timings=timings), examined.utterance, units)

    def _armed(self, waveform: Waveform, user: str, attempt: Attempt, act: Callable[[], Authentication]) -> Verdict:
        """Charge, judge, settle. If judging breaks off, the charge stays."""
        decision_id = _new_id()
        try:
            if not self._charge(attempt, [user]):
                report = self._lockout.report(user)  # a delay may be over since the charge was refused
                left = report.retry_after if report.locked else None
                return Verdict(decision_id, LOCKED, waveform.source, user, retry_after=left)
        except UnknownUserError:
            return Verdict(decision_id, not_enrolled(user), waveform.source, user)
        result = act()
        self._lockout.settle(user, result.decision.outcome)
        return Verdict(decision_id, result.decision, waveform.source, user, result.envelope, early=attempt.early)

    def _settle(self, charged: Sequence[Template], found: Identification) -> None:
        best = found.candidates[0][0] if found.candidates else None
        for template in charged:
            if found.decision.outcome is Outcome.INCONCLUSIVE or template.name == best:
                self._lockout.settle(template.name, found.decision.outcome)
            else:
                self._lockout.refund(template.name)

    def _sign(
        self, pipeline: Pipeline, waveform: Waveform, examined: Examined, arming: Arming, name: str
    ) -> Envelope | None:
        request = AuthenticationRequest(name, arming.rp_id, arming.nonce, None, arming.purpose)
        utterance = examined.utterance or pipeline.prepare(waveform)
        try:
            return pipeline.sign(
                utterance, examined.decision, self._vault, self._authenticator, request, units=examined.units
            )
        except CredentialError:
            return None  # accepted, but not registered at this relying party

    def _template(self, user: str) -> Template | None:
        try:
            return self._vault.load_template(user)
        except UnknownUserError:
            return None


def _new_id() -> str:
    return secrets.token_hex(16)
