"""The methods that listen: claim, verify, authenticate, register, enrol, and what follows a spontaneous wake word."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from voiceid.credentials.envelope import check_purpose
from voiceid.credentials.rp_id import check_rp_id
from voiceid.errors import VoiceIdError
from voiceid.pipeline import AuthenticationRequest
from voiceid.service.attempt import Attempt, Candidate
from voiceid.service.audit import Audit
from voiceid.service.connection import Call, Connection
from voiceid.service.detail import detail_of
from voiceid.service.ear import Heard
from voiceid.service.even_time import even_out
from voiceid.service.fields import MAX_HANDING_SECONDS
from voiceid.service.hearing import Hearing
from voiceid.service.judge import Judge, Verdict
from voiceid.service.metrics import Metrics
from voiceid.service.permissions import not_permitted
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.service.session import Arming, CaptureSession, Claim
from voiceid.types import Waveform

T = TypeVar("T")

DEFAULT_CLAIM = 60
"""Seconds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Overheard:
    """An utterance that no request asked for: when the ear opened, and the armed claim that it is meant for."""

    began: float
    claim: Claim | None
    attempt: Attempt


class Judging(Protocol):
    """Judges an utterance for a ceremony."""

    def __call__(self, waveform: Waveform, *, attempt: Attempt) -> Verdict: ...


class Ceremonies:
    """Handlers that need the capture session. All scoring happens in one thread, in the order of the requests."""

    def __init__(
        self,
        judge: Judge,
        audit: Audit,
        metrics: Metrics,
        *,
        is_granted: Callable[[Connection, str], bool],
        announce: Callable[[Verdict], None],
    ) -> None:
        """``announce`` hears of every verdict."""
        self.judge = judge
        self._audit, self._metrics = audit, metrics
        self._is_granted, self._announce = is_granted, announce
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._spontaneous: asyncio.Task[None] | None = None
        self._overheard: Overheard | None = None
        self._finishing: set[asyncio.Task[Verdict]] = set()
        self.session = CaptureSession(_tell_expired, idle=judge.pipeline.settings.service.claim_idle)
        self.hearing: Hearing

    def handlers(self) -> dict[str, Callable[[Call], Awaitable[dict[str, Any]]]]:
        """The handler of each method."""
        return {
            "claim": self.claim,
            "release": self.release,
            "audio.append": self.append_audio,
            "verify": self.verify,
            "authenticate": self.authenticate,
            "credentials.register": self.register,
        }

    async def claim(self, call: Call) -> dict[str, Any]:
        arming = self._arming(call)
        seconds = call.params.get("seconds", DEFAULT_CLAIM)
        if arming is None:
            seconds = min(seconds, MAX_HANDING_SECONDS)
        claim = self.session.claim(call.connection, uid=call.peer.uid, seconds=seconds, arming=arming)
        return {"claim": claim.claim_id, "seconds": seconds}

    async def release(self, call: Call) -> dict[str, Any]:
        return {"released": self.session.release(call.connection)}

    async def append_audio(self, call: Call) -> dict[str, Any]:
        claim = self.session.of(call.connection)
        claim.append(call.params["pcm"], end=call.params["end"])
        return {"seconds": round(claim.seconds, 3)}

    async def verify(self, call: Call) -> dict[str, Any]:
        user = call.params["user"]
        check_purpose(call.params["purpose"])
        precheck = partial(self.judge.precheck, user)
        early = partial(self.judge.examine_early, user=user)
        verdict = await self._ceremony("verify", call, precheck, early, partial(self.judge.verify, user=user))
        return {**verdict_facts(verdict), **lock_facts(verdict), "challenge": call.params["challenge"]}

    async def authenticate(self, call: Call) -> dict[str, Any]:
        params = call.params
        check_purpose(params["purpose"])
        request = AuthenticationRequest(
            params["user"], params["relying_party"], params["nonce"], params.get("credential_id"), params["purpose"]
        )

        def precheck() -> Verdict | None:
            if not call.admin:
                self.judge.check_credential(request)
            return self.judge.precheck(request.user, request)

        early = partial(self.judge.examine_early, user=request.user, request=request)
        judge = partial(self.judge.authenticate, request=request)
        verdict = await self._ceremony("authenticate", call, precheck, early, judge)
        locked = lock_facts(verdict)
        if locked and not call.admin and not await self.score(self.judge.is_owner, request.user, call.peer.uid):
            locked = {}
        return {**verdict_facts(verdict), **locked, **envelope_facts(verdict)}

    async def register(self, call: Call) -> dict[str, Any]:
        params, user = call.params, call.params["user"]
        asked = {
            "user": user,
            "rp_id": params["relying_party"],
            "challenge": params["challenge"],
            "user_handle": params.get("user_handle"),
        }
        precheck = partial(self.judge.precheck_registration, **asked)
        early = partial(self.judge.examine_early, user=user)
        verdict = await self._ceremony("register", call, precheck, early, partial(self.judge.register, **asked))
        facts, made = {**verdict_facts(verdict), **lock_facts(verdict)}, verdict.registered
        if made is not None:
            facts |= {"credential": made.credential.facts(user), "registration": made.response}
        return facts

    async def listen(
        self, call: Call, claim: Claim, on_candidate: Callable[[Candidate], object] | None = None
    ) -> Waveform:
        """The utterance that ``call`` is about: handed over, or spoken now."""
        if call.params.get("audio"):
            return claim.take_recordings()[0]
        call.notify("progress", stage="listening")
        return await self.hearing.utterance(lambda: call.notify("progress", stage="speech"), on_candidate)

    async def score(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run ``function`` in the scoring thread. A cancelled wait leaves it to finish there."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    def candidate(self, candidate: Candidate) -> None:
        """Examine in advance what no request asked for."""
        overheard = self._overhear(candidate.began)
        if overheard is not None:
            arming = overheard.claim.arming if overheard.claim else None
            self._worker.submit(self.judge.identify_early, candidate, overheard.attempt, arming)

    def dropped(self) -> None:
        """What no request asked for is not heard to its end."""
        if self._overheard is not None:
            self._worker.submit(self.judge.abandon, self._overheard.attempt)
        self._overheard = None

    def spontaneous(self, heard: Heard) -> None:
        """Judge what was said after a wake word that no request asked for; one at a time, others are dropped."""
        overheard = self._overhear(heard.began)
        if overheard is None or self._occupied:
            self.dropped()
            return
        self._overheard = None
        claim = overheard.claim if overheard.claim is self.session.current else None
        if claim is not None:
            claim.busy = True
        self._spontaneous = asyncio.create_task(self._identify(heard.waveform, claim, overheard.attempt))

    async def close(self) -> None:
        """Let what is being judged come to its end, log included, and end the scoring thread."""
        if self._finishing:
            await asyncio.wait(self._finishing)
        if self._overheard is not None:
            await self.score(self.judge.abandon, self._overheard.attempt)
        self._worker.shutdown(wait=True, cancel_futures=True)

    @property
    def _occupied(self) -> bool:
        claim = self.session.current
        return (self._spontaneous is not None and not self._spontaneous.done()) or (claim is not None and claim.busy)

    def _overhear(self, began: float) -> Overheard | None:
        """The utterance for which the ear opened at ``began``; None where it will not be judged.

        A claim that was made after that does not count: the speaker could not know of it.
        """
        if self._overheard is not None and self._overheard.began == began:
            return self._overheard
        self.dropped()
        if self._occupied:
            return None
        claim = self.session.current
        armed = claim if claim is not None and claim.arming is not None and claim.since <= began else None
        self._overheard = Overheard(began, armed, Attempt())
        return self._overheard

    async def _identify(self, waveform: Waveform, claim: Claim | None, attempt: Attempt) -> None:
        began = time.monotonic()
        arming = claim.arming if claim is not None else None
        rp_id = arming.rp_id if arming is not None else None
        connection = claim.holder if claim is not None and isinstance(claim.holder, Connection) else None
        peer = connection.peer if connection is not None else None
        try:
            verdict = await self.score(partial(self.judge.identify, waveform, arming, attempt=attempt))
            self._audit.decision("identify", verdict, peer, rp_id)
        except Exception as error:
            _log.exception("identify failed")
            self._audit.failure("identify", error, peer, None, rp_id)
            return
        finally:
            if claim is not None:
                claim.busy = False
        self._metrics.decision("identify", verdict.decision.outcome.value, time.monotonic() - began)
        self._announce(verdict)
        if claim is not None and connection is not None and self.session.current is claim:
            self._deliver(verdict, claim, connection)

    def _deliver(self, verdict: Verdict, claim: Claim, connection: Connection) -> None:
        """Give the verdict to the claim's holder; a signature uses the nonce up, and the claim with it."""
        facts = {**verdict_facts(verdict), **envelope_facts(verdict)}
        if verdict.decision.accepted:
            facts["user"] = verdict.user
        connection.notify("utterance", claim=claim.claim_id, **facts)
        if verdict.envelope is not None:
            self.session.release(connection)
            connection.notify("claim.ended", claim=claim.claim_id, reason="used")

    async def _ceremony(
        self,
        name: str,
        call: Call,
        precheck: Callable[[], Verdict | None],
        early: Callable[[Candidate, Attempt], None],
        judge: Judging,
    ) -> Verdict:
        """Look before listening, listen, judge; ``early`` works on what has been said while the end is not certain yet.

        Judging is shielded: it is settled, logged and counted even if the client no longer waits for it.
        """
        with self.session.using(call.connection, uid=call.peer.uid) as claim:
            if (verdict := await self._look_ahead(precheck)) is not None:
                self._report(name, verdict, call, None)
                return verdict
            attempt = Attempt()
            waveform = await self.listen(call, claim, lambda candidate: self._worker.submit(early, candidate, attempt))
            began = time.monotonic()
            call.notify("progress", stage="judging")
            task = asyncio.create_task(self._finish(name, call, partial(judge, waveform, attempt=attempt), began))
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)
            return await asyncio.shield(task)

    async def _look_ahead(self, precheck: Callable[[], Verdict | None]) -> Verdict | None:
        began = time.monotonic()
        try:
            return await self.score(precheck)
        except VoiceIdError:
            await even_out(began)  # with the session held, so that others see no difference either
            raise

    async def _finish(self, ceremony: str, call: Call, judge: Callable[[], Verdict], began: float) -> Verdict:
        verdict: Verdict | None = None
        try:
            verdict = await self.score(judge)
            self._report(ceremony, verdict, call, time.monotonic() - began)
        except Exception as error:
            self._audit.failure(ceremony, error, call.peer, call.params["user"], call.params.get("relying_party"))
            if verdict is not None:
                await self.score(self.judge.withdraw, verdict)
            raise
        return verdict

    def _report(self, ceremony: str, verdict: Verdict, call: Call, seconds: float | None) -> None:
        self._audit.decision(ceremony, verdict, call.peer, call.params.get("relying_party"))
        self._metrics.decision(ceremony, verdict.decision.outcome.value, seconds)
        self._announce(verdict)

    def _arming(self, call: Call) -> Arming | None:
        values = [call.params.get(key) for key in ("relying_party", "purpose", "nonce")]
        if all(value is None for value in values):
            return None
        rp_id, purpose, nonce = values
        if rp_id is None or purpose is None or nonce is None:
            raise RequestError(Fault.INVALID_PARAMS, "claim: relying_party, purpose and nonce go together")
        if not self._is_granted(call.connection, check_rp_id(rp_id)):
            raise not_permitted("claim")
        return Arming(rp_id, check_purpose(purpose), nonce)


def verdict_facts(verdict: Verdict) -> dict[str, Any]:
    """What the client who asked hears."""
    return {
        "answer": verdict.answer.value,
        "decision": verdict.decision_id,
        "detail": detail_of(verdict),
    }


def lock_facts(verdict: Verdict) -> dict[str, Any]:
    """How long a lock lasts, for the owner and for admins: who only has the grant learns no more than the lock."""
    return {} if verdict.retry_after is None else {"retry_after": verdict.retry_after}


def envelope_facts(verdict: Verdict) -> dict[str, Any]:
    """The envelope, where there is one."""
    if verdict.envelope is None:
        return {}
    return {"envelope": verdict.envelope.to_bytes(), "source": verdict.envelope.contents.source.value}


def _tell_expired(claim: Claim, reason: str) -> None:
    if isinstance(claim.holder, Connection):
        claim.holder.notify("claim.ended", claim=claim.claim_id, reason=reason)
