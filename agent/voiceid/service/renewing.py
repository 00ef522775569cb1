"""The method ``enrol`` with ``renew``: a matching template for the identity model in use, for the very same person."""

from __future__ import annotations

from typing import Any

from voiceid.enrolment.enrol import EnrolmentFault, EnrolmentFeedback, EnrolmentSession
from voiceid.enrolment.renewal import find_former, save_renewal
from voiceid.enrolment.reports import UserSummary
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import EnrolmentError
from voiceid.pipeline import Pipeline
from voiceid.service.connection import Call
from voiceid.service.lockout import Lockout
from voiceid.service.permissions import not_permitted
from voiceid.service.pin import UnverifiedError
from voiceid.types import Outcome, Waveform
from voiceid.wall_clock import unix_seconds

_DENIED = frozenset({EnrolmentFault.OTHER_SPEAKER, EnrolmentFault.SOUNDS_SYNTHETIC, EnrolmentFault.SOUNDS_REPLAYED})


def result_of(user: Template | UserSummary) -> dict[str, Any]:
    """The result of ``enrol`` where all that it did was to make what ``user`` tells of."""
    return {
        "user": user.name,
        "utterance_count": user.utterance_count,
        "net_speech": user.net_speech,
        "model_name": user.model_name,
        "changed": True,
        "ended_credentials": [],
        "similar": [],
    }


class Renewal:
    """One renewal; for the scoring thread.

    Where a former model recognises the user, each utterance is charged to the lock-out before it is judged, as a
    verification is, and the charge is taken back if it passes; it clears no failures.

    Raises:
        UnverifiedError: no former model is there, and neither PIN nor admin speaks for the person.
        UnknownUserError, VaultError, ClockError: nothing can be renewed, whatever is said.
    """

    def __init__(self, vault: Vault, lockout: Lockout, pipeline: Pipeline, call: Call) -> None:
        self._vault, self._lockout = vault, lockout
        vault.check_writable()
        unix_seconds()
        self.template = vault.load_template(call.params["user"])
        former = find_former(self.template, pipeline.settings.models)
        self._charges = former is not None
        if former is None:
            self._vouched(call)
        recognised = former.recognises if former else None
        self.session = EnrolmentSession(pipeline.judges, pipeline.settings, recognised=recognised)

    def add(self, waveform: Waveform) -> EnrolmentFeedback:
        """Judge ``waveform`` and take it in.

        Raises:
            EnrolmentError: the user is locked.
        """
        if not self._charges:
            return self.session.add(waveform)
        name = self.template.name
        if not self._lockout.charge(name):
            raise EnrolmentError(f"{name!r} is locked after too many failures; try again later")
        feedback = self.session.add(waveform)
        if feedback.accepted or feedback.fault is EnrolmentFault.REPEATED:
            self._lockout.refund(name)
        else:
            self._lockout.settle(name, Outcome.REJECTED if feedback.fault in _DENIED else Outcome.INCONCLUSIVE)
        return feedback

    def store(self) -> dict[str, Any]:
        """Store the matching template; returns the result of ``enrol``.

        Raises:
            EnrolmentError: not complete.
        """
        stored = save_renewal(self._vault, self.template, self.session)
        return result_of(stored) | {"net_speech": round(self.session.net_speech, 3)}

    def _vouched(self, call: Call) -> None:
        """Insist on the word of an admin or the PIN."""
        if call.params.get("unverified"):
            if not call.admin:
                raise not_permitted("enrol unverified")
            return
        name, pin = self.template.name, call.params.get("pin")
        if pin is None:
            raise UnverifiedError(
                f"no identity model that {name!r} was enrolled with is here ([models] former) to recognise the voice: "
                "the PIN is needed, or an admin with --yes"
            )
        if self._lockout.report(name).disabled:
            raise EnrolmentError(f"{name!r} is disabled after too many failures; only an admin can end it")
        if not self._lockout.enter_pin(name, pin):
            raise EnrolmentError(f"not the PIN of {name!r}, or none is set, or its tries are used up")
