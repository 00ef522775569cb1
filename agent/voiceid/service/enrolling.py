"""The method ``enrol``: one utterance at a time, feedback on each, and nothing stored before the last."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from voiceid.enrolment.enrol import EnrolmentFault, EnrolmentFeedback, EnrolmentResult, EnrolmentSession
from voiceid.enrolment.names import check_name
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import EnrolmentError, UnknownUserError, VaultError
from voiceid.service.audit import Audit
from voiceid.service.ceremonies import Ceremonies
from voiceid.service.connection import Call
from voiceid.service.guesses import Guesses
from voiceid.service.lockout import Lockout
from voiceid.service.permissions import MAX_USERS_OF_UID, not_permitted
from voiceid.service.protocol import RequestError
from voiceid.service.renewing import Renewal, result_of
from voiceid.service.schema import Fault
from voiceid.service.session import Claim
from voiceid.settings import MAX_RECORDINGS, Settings
from voiceid.types import Waveform
from voiceid.wall_clock import unix_seconds

MAX_SILENT = 2
"""Times in a row that nobody may speak."""

_ATTACKS = frozenset({EnrolmentFault.SOUNDS_SYNTHETIC, EnrolmentFault.SOUNDS_REPLAYED})


class Enrolling:
    """Enrols into ``vault``; listens and judges as ``ceremonies`` does."""

    def __init__(self, vault: Vault, lockout: Lockout, ceremonies: Ceremonies, audit: Audit) -> None:
        self._vault, self._lockout, self._ceremonies, self._audit = vault, lockout, ceremonies, audit
        self._taken = Guesses()

    async def enrol(self, call: Call) -> dict[str, Any]:
        """Handle the request ``call``."""
        if call.params.get("renew"):
            return await self._renew(call)
        score = self._ceremonies.score
        with self._ceremonies.session.using(call.connection, uid=call.peer.uid) as claim:
            former, others = await score(self._begin, call)
            session = EnrolmentSession(self._ceremonies.judge.pipeline.judges, self._settings, others)
            async for waveform in self._utterances(call, claim):
                feedback = await score(session.add, waveform)
                _tell(call, feedback)
                if session.complete and not call.params.get("audio"):
                    break
            result, ended = await score(self._store, call, session, former)
        self._audit.change("user_enrolled_anew" if former else "user_enrolled", call.peer, result.template.name)
        return result_of(result.template) | {"ended_credentials": ended, "similar": list(result.similar)}

    async def _renew(self, call: Call) -> dict[str, Any]:
        if call.params.get("replace"):
            raise RequestError(Fault.INVALID_PARAMS, "enrol: replace ends all credentials, renew keeps them; take one")
        score = self._ceremonies.score
        with self._ceremonies.session.using(call.connection, uid=call.peer.uid) as claim:
            if not call.params.get("again") and (present := await score(self._renewed_already, call)):
                return present
            renewal = await score(Renewal, self._vault, self._lockout, self._ceremonies.judge.pipeline, call)
            async for waveform in self._utterances(call, claim):
                _tell(call, await score(renewal.add, waveform))
                if renewal.session.complete and not call.params.get("audio"):
                    break
            made: dict[str, Any] = await score(renewal.store)
        self._audit.change("user_renewed", call.peer, renewal.template.name)
        return made

    def _renewed_already(self, call: Call) -> dict[str, Any] | None:
        """The result where there is nothing to renew; None where there is."""
        user, judges = self._vault.show_user(call.params["user"]), self._ceremonies.judge.pipeline.judges
        if user.lacks(judges.identity.card.sha256, judges.relative_detectors):
            return None
        return result_of(user) | {"changed": False}

    @property
    def _settings(self) -> Settings:
        return self._ceremonies.judge.pipeline.settings

    async def _utterances(self, call: Call, claim: Claim) -> AsyncIterator[Waveform]:
        if call.params.get("audio"):
            for waveform in claim.take_recordings()[:MAX_RECORDINGS]:
                yield waveform
            return
        silent = 0
        for _ in range(MAX_RECORDINGS):
            try:
                yield await self._ceremonies.listen(call, claim)
                silent = 0
            except RequestError as error:
                silent += 1
                if error.fault is not Fault.NO_SPEECH or silent > MAX_SILENT:
                    raise

    def _begin(self, call: Call) -> tuple[Template | None, list[Template]]:
        """The former template of the user, and those of all others."""
        name, replace = check_name(call.params["user"]), call.params.get("replace", False)
        if "owner_uid" in call.params and not call.admin:
            raise not_permitted("enrol with owner_uid")
        self._vault.check_writable()
        unix_seconds()  # a clock without a date fails here, not after the last utterance
        users = self._vault.list_users()
        former = self._former(call, name)
        if former is not None and not replace:
            raise EnrolmentError(f"{name!r} is enrolled already; start anew with 'voiceid users reenroll' (replace)")
        if former is None and replace:
            raise UnknownUserError(f"{name!r} is not enrolled on this device")
        if former is None and not self._taken.may_go_on(call.peer.uid):
            raise not_permitted("enrol")
        owned = sum(user.owner_uid == call.peer.uid for user in users)
        if former is None and not call.admin and owned >= MAX_USERS_OF_UID:
            raise RequestError(Fault.TOO_MANY, f"uid {call.peer.uid} owns {owned} users already; delete one first")
        known = [self._vault.load_template(user.name) for user in users]
        return former, [t for t in known if former is None or t.user_id != former.user_id]

    def _store(
        self, call: Call, session: EnrolmentSession, former: Template | None
    ) -> tuple[EnrolmentResult, list[dict[str, Any]]]:
        name = check_name(call.params["user"])
        owner = former.owner_uid if former else call.params.get("owner_uid", call.peer.uid)
        result = session.finish(former.name if former else name, owner_uid=owner)
        if former is None:
            self._save_new(call, result.template)
            return result, []
        template = dataclasses.replace(result.template, user_id=former.user_id)
        ended = self._vault.save_template(template, replace=True)
        return result, [credential.facts(template.name) for credential in ended]

    def _save_new(self, call: Call, template: Template) -> None:
        try:
            self._vault.save_template(template)
        except EnrolmentError:
            if call.admin:
                raise
            self._taken.count(call.peer.uid)
            self._audit.change("taken_name_refused", call.peer, template.name)
            raise EnrolmentError(f"{template.name!r} cannot be used here; choose another name") from None

    def _former(self, call: Call, name: str) -> Template | None:
        """The template of ``name``; to whom it is no business of theirs the name is free until the end."""
        try:
            template = self._vault.load_template(name)
        except UnknownUserError:
            return None
        except VaultError:
            if call.admin:
                raise
            return None
        return template if call.admin or template.owner_uid == call.peer.uid else None


def _tell(call: Call, feedback: EnrolmentFeedback) -> None:
    """Say what became of an utterance. Who is no admin does not learn which attack was seen through."""
    message, fault = feedback.message, feedback.fault.value if feedback.fault else None
    if feedback.fault in _ATTACKS and not call.admin:
        message, fault = "this cannot be used; speak live, in your usual voice", "unsuitable"
    more = {} if fault is None else {"fault": fault}
    progress = round(feedback.progress, 3)
    call.notify("enrol.progress", accepted=feedback.accepted, message=message, progress=progress, **more)
