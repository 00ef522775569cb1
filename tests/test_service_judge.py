"""Ceremonies: the lock-out around the pipeline. The pipeline's models are stood in for, vault and lock-out are real."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.vault_helpers import DEVICE_KEY, NONCE, RP, Party, make_matching, make_template
from voiceid.errors import CredentialError, EnrolmentError, ServiceError, VaultError
from voiceid.pipeline import Authentication, AuthenticationRequest, Examined, Identification
from voiceid.scoring.policy import not_enrolled
from voiceid.service.attempt import Attempt, Candidate
from voiceid.service.audit import Audit, StreamLog
from voiceid.service.ceremonies import Ceremonies
from voiceid.service.fields import MAX_HANDING_SECONDS
from voiceid.service.judge import Answer, Judge
from voiceid.service.lockout import Lockout
from voiceid.service.lockout_state import DISABLED_AT, LockoutState
from voiceid.service.metrics import Metrics
from voiceid.service.peers import Peer
from voiceid.service.session import Arming
from voiceid.settings import Settings
from voiceid.types import Decision, Outcome, Source, Waveform

WAVEFORM = Waveform(np.zeros(16_000, np.float32), Source.FILE)
NAMES = ("Ada", "Bob", "Cleo")


class Pipeline:
    """Decides as it is told and notes how the lock-out stood when it was asked."""

    def __init__(self, lockout):
        self.lockout, self.outcome, self.best = lockout, Outcome.REJECTED, "Ada"
        self.charged, self.candidates, self.error = [], [], None
        self.settings = Settings()

    def check_template(self, template):
        if self.error is not None:
            raise self.error

    def decide(self, waveform, template, *, name=""):
        self._look([name])
        return self._decision(name)

    def examine(self, waveform, template, *, watch):
        with watch.stage("prepare"):
            self._look([template.name])
        return Examined(self._decision(template.name), waveform)

    def speech_units(self, utterance, profile):
        return None

    def authenticate(self, waveform, vault, authenticator, request, *, known):
        examined = known(vault.load_template(request.user))
        if examined is None:
            self._look([request.user])
        decision = examined.decision if examined else self._decision(request.user)
        return Authentication(decision, self._signed(authenticator, request, decision) if decision.accepted else None)

    def identify(self, waveform, templates, *, watch=None):
        self.candidates = [template.name for template in templates]
        self._look(self.candidates)
        if not templates:
            return Identification(None, not_enrolled("anybody"), ())
        if self.outcome is Outcome.INCONCLUSIVE:
            return Identification(None, self._decision(self.best), ())
        scored = tuple(
            sorted(((name, float(name == self.best)) for name in self.candidates), key=lambda pair: -pair[1])
        )
        decision = self._decision(scored[0][0])
        return Identification(scored[0][0] if decision.accepted else None, decision, scored)

    def prepare(self, waveform):
        return waveform

    def sign(self, waveform, decision, vault, authenticator, request, *, units):
        return self._signed(authenticator, request, decision)

    def _signed(self, authenticator, request, decision):
        return authenticator.authenticate(
            request.user, rp_id=request.rp_id, nonce=request.nonce, source=Source.FILE, decision=decision
        )

    def _look(self, names):
        self.charged.append({name: self.lockout.report(name).failures for name in names})
        if isinstance(self.error, RuntimeError):
            raise self.error

    def _decision(self, name):
        return Decision(self.outcome, (self.outcome.value,), user=name, timings={"total": 1.0})


@pytest.fixture
def party(tmp_path):
    party = Party(tmp_path / "vault")
    for number, name in enumerate(NAMES[1:], 1):
        party.vault.save_template(make_template(name, seed=number))
    return party


@pytest.fixture
def lockout(party):
    return Lockout(party.vault)


@pytest.fixture
def pipeline(lockout):
    return Pipeline(lockout)


@pytest.fixture
def judge(pipeline, party, lockout):
    return Judge(pipeline, party.vault, DEVICE_KEY, lockout)


def failures(lockout):
    return {name: lockout.report(name).failures for name in NAMES}


REQUEST = AuthenticationRequest("Ada", RP, NONCE, None, "a test")
ARMING = Arming(RP, "a test", NONCE)


def test_the_attempt_is_charged_before_it_is_scored_and_settled_after(judge, pipeline, lockout):
    assert judge.verify(WAVEFORM, "Ada").answer is Answer.DENIED
    assert pipeline.charged == [{"Ada": 1}] and failures(lockout)["Ada"] == 1
    pipeline.outcome = Outcome.ACCEPTED
    assert judge.verify(WAVEFORM, "Ada").answer is Answer.ACCEPTED
    assert pipeline.charged[-1] == {"Ada": 2} and failures(lockout)["Ada"] == 0


def test_scoring_that_breaks_off_keeps_its_charge(judge, pipeline, lockout):
    pipeline.error = RuntimeError("a fault")
    for _ in range(5):
        with pytest.raises(RuntimeError):
            judge.verify(WAVEFORM, "Ada")
    assert judge.precheck("Ada").answer is Answer.LOCKED


def test_a_locked_user_is_not_scored(judge, pipeline, lockout):
    for _ in range(5):
        judge.verify(WAVEFORM, "Ada")
    asked = len(pipeline.charged)
    pipeline.outcome = Outcome.ACCEPTED
    assert judge.precheck("Ada").answer is Answer.LOCKED and 0 < judge.precheck("Ada").retry_after <= 30
    assert judge.verify(WAVEFORM, "Ada").decision.outcome is Outcome.LOCKED_OUT
    assert 0 < judge.verify(WAVEFORM, "Ada").retry_after <= 30
    assert judge.authenticate(WAVEFORM, REQUEST).envelope is None
    assert len(pipeline.charged) == asked


def test_a_lock_without_an_end_says_so(judge, party, lockout):
    party.vault.save_lockout("Ada", LockoutState(failures=DISABLED_AT).to_bytes())
    verdict = judge.precheck("Ada")
    assert verdict.answer is Answer.LOCKED and verdict.retry_after == 0
    assert judge.precheck("Bob") is None and judge.is_owner("Ada", 1000) and not judge.is_owner("Ada", 1001)
    assert not judge.is_owner("Nobody", 1000)


def test_nothing_is_scored_where_the_charge_cannot_be_written(judge, pipeline, party, monkeypatch):
    def full(name, state):
        raise VaultError("disk full")

    monkeypatch.setattr(party.vault, "save_lockout", full)
    with pytest.raises(VaultError):
        judge.verify(WAVEFORM, "Ada")
    with pytest.raises(VaultError):
        judge.identify(WAVEFORM, ARMING)
    assert pipeline.charged == []


def test_before_the_microphone_opens(judge, pipeline, lockout):
    assert judge.precheck("Ada") is None
    assert judge.precheck("Nobody").answer is Answer.DENIED
    assert judge.precheck("Ada", REQUEST) is None
    for wrong in (
        dataclasses.replace(REQUEST, rp_id="bank.example.org"),
        dataclasses.replace(REQUEST, credential_id=b"x" * 60),
    ):
        with pytest.raises(CredentialError):
            judge.precheck("Ada", wrong)
    pipeline.error = EnrolmentError("enrolled with another model")
    with pytest.raises(EnrolmentError):
        judge.precheck("Ada")
    assert failures(lockout)["Ada"] == 0 and pipeline.charged == []


def test_an_envelope_for_an_acceptance_only(judge, pipeline, party):
    assert judge.authenticate(WAVEFORM, REQUEST).envelope is None
    pipeline.outcome = Outcome.ACCEPTED
    verdict = judge.authenticate(WAVEFORM, REQUEST)
    assert party.verify(verdict.envelope.to_bytes(), allow_file=True).source is Source.FILE


def test_registering_takes_an_acceptance(judge, pipeline, party):
    before = party.vault.credentials("Ada")
    more = {"rp_id": RP, "challenge": NONCE, "user_handle": None}
    assert judge.register(WAVEFORM, "Ada", **more).registered is None
    assert party.vault.credentials("Ada") == before
    pipeline.outcome = Outcome.ACCEPTED
    assert judge.register(WAVEFORM, "Ada", **more).registered.credential in party.vault.credentials("Ada")


def test_a_spontaneous_wake_word_counts_only_where_a_claim_is_armed(judge, pipeline, lockout):
    for _ in range(12):
        verdict = judge.identify(WAVEFORM, None)
        assert verdict.user is None and verdict.envelope is None
    assert failures(lockout) == {"Ada": 0, "Bob": 0, "Cleo": 0}
    judge.identify(WAVEFORM, ARMING)
    assert pipeline.charged[-1] == {"Ada": 1, "Bob": 1, "Cleo": 1}, "whoever may be meant, before scoring"
    assert failures(lockout) == {"Ada": 1, "Bob": 0, "Cleo": 0}, "the best match keeps it"


def test_an_armed_claim_gives_the_envelope_of_who_was_accepted(judge, pipeline, party, lockout):
    pipeline.outcome = Outcome.ACCEPTED
    verdict = judge.identify(WAVEFORM, ARMING)
    assert verdict.user == "Ada" and party.verify(verdict.envelope.to_bytes(), allow_file=True)
    pipeline.best = "Bob"
    verdict = judge.identify(WAVEFORM, ARMING)
    assert verdict.user == "Bob" and verdict.envelope is None, "Bob is not registered there"
    assert failures(lockout) == {"Ada": 0, "Bob": 0, "Cleo": 0}


def test_an_armed_claim_is_no_way_around_the_lock(judge, pipeline, lockout):
    for _ in range(5):
        judge.identify(WAVEFORM, ARMING)
    assert lockout.report("Ada").locked
    pipeline.outcome = Outcome.ACCEPTED
    assert judge.identify(WAVEFORM, ARMING).user != "Ada"
    assert "Ada" not in pipeline.candidates
    judge.identify(WAVEFORM, None)
    assert "Ada" not in pipeline.candidates, "nor is a wake word that nobody armed"


def test_where_everybody_is_locked_nobody_is_scored(judge, pipeline, lockout):
    for pipeline.best in NAMES:
        for _ in range(5):
            judge.identify(WAVEFORM, ARMING)
    asked = len(pipeline.charged)
    assert judge.identify(WAVEFORM, ARMING).answer is Answer.LOCKED
    assert len(pipeline.charged) == asked


def test_inconclusive_claims_count_for_everybody_who_may_be_meant(judge, pipeline, lockout):
    pipeline.outcome = Outcome.INCONCLUSIVE
    for _ in range(10):
        judge.identify(WAVEFORM, ARMING)
    assert failures(lockout) == {"Ada": 1, "Bob": 1, "Cleo": 1}


@pytest.fixture
def ask(judge, pipeline):
    """Ask for a ceremony on audio that was handed over, as the daemon does; returns what the client hears."""
    pipeline.outcome = Outcome.ACCEPTED

    async def listen(method, more):
        ceremonies = Ceremonies(
            judge, Audit(str.lower), Metrics(), is_granted=lambda *_: True, announce=lambda verdict: None
        )
        client = object()
        ceremonies.session.claim(client, uid=1000, seconds=60).append(bytes(32_000), end=True)
        params = {"user": "Ada", "relying_party": RP, "purpose": "a test", "nonce": NONCE, "audio": True, **more}
        call = SimpleNamespace(
            params=params, connection=client, peer=Peer(1000, 1000, 1), admin=False, notify=lambda *_, **__: None
        )
        try:
            return await getattr(ceremonies, method)(call)
        finally:
            await ceremonies.close()

    return lambda method, **more: asyncio.run(listen(method, more))


def test_a_disk_that_fills_between_acceptance_and_signature_leaves_an_event(ask, party, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "voiceid.audit")
    assert "envelope" in ask("authenticate")
    assert caplog.records[-1].fields["VOICEID_SIGNED"] == "yes"

    def full(credential_id):
        raise VaultError("disk full")

    monkeypatch.setattr(party.vault, "next_counter", full)
    with pytest.raises(VaultError):
        ask("authenticate")
    fields = caplog.records[-1].fields
    assert (fields["VOICEID_EVENT"], fields["VOICEID_CEREMONY"]) == ("failure", "authenticate")
    assert (fields["VOICEID_ERROR"], fields["VOICEID_SIGNED"]) == ("VaultError", "no")
    assert (fields["VOICEID_USER"], fields["VOICEID_UID"], fields["VOICEID_RELYING_PARTY"]) == ("ada", "1000", RP)


def test_nothing_is_signed_or_registered_where_its_event_cannot_be_written(ask, party, monkeypatch):
    before = party.vault.credentials("Ada")
    assert "registration" in ask("register", challenge=NONCE)
    registered = party.vault.credentials("Ada")
    assert len(registered) == len(before) + 1
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log = logging.getLogger("voiceid.audit")
    log.setLevel(logging.INFO)
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        log.addHandler(handler := StreamLog(full))
        try:
            for method, more in (("authenticate", {}), ("register", {"challenge": NONCE})):
                with pytest.raises(ServiceError, match="audit log"):
                    ask(method, **more)
        finally:
            log.removeHandler(handler)
    assert party.vault.credentials("Ada") == registered, "what nobody was given is not kept"


def test_only_the_owner_and_admins_hear_how_long_a_lock_lasts(ask, party, lockout):
    for _ in range(5):
        lockout.charge("Ada")
    assert 0 < ask("authenticate")["retry_after"] <= 30
    party.vault.save_template(dataclasses.replace(party.template, owner_uid=1001), replace=True)
    assert ask("authenticate")["answer"] == "locked" and "retry_after" not in ask("authenticate")


def test_who_may_ask_for_a_relying_party_learns_of_nobody_who_is_not_registered_there(ask, party, lockout):
    def heard(user, **more):
        with pytest.raises(CredentialError) as caught:
            ask("authenticate", user=user, **more)
        return str(caught.value)

    for _ in range(5):
        lockout.charge("Cleo")
    folder = next(path for path in party.vault.folder.glob("users/*") if not list(path.glob("credential-*")))
    said = {heard("Bob"), heard("Cleo"), heard("nobody"), heard("Ada", credential_id=bytes(100))}
    assert len(said) == 1, "enrolled, locked, unknown, and another's credential"
    (folder / "template").write_bytes(b"x")
    assert {heard("Bob"), heard("Cleo")} == said, "damaged"
    assert "envelope" in ask("authenticate")


def test_a_claim_for_audio_ends_after_a_minute_and_an_armed_one_when_it_says(judge):
    async def claim(**params):
        ceremonies = Ceremonies(judge, Audit(str), Metrics(), is_granted=lambda *_: True, announce=lambda verdict: None)
        try:
            return await ceremonies.claim(SimpleNamespace(params=params, connection=object(), peer=Peer(1000, 1000, 1)))
        finally:
            await ceremonies.close()

    assert asyncio.run(claim(seconds=300))["seconds"] == MAX_HANDING_SECONDS
    assert asyncio.run(claim(seconds=5))["seconds"] == 5
    armed = {"relying_party": RP, "purpose": "a test", "nonce": NONCE}
    assert asyncio.run(claim(seconds=300, **armed))["seconds"] == 300


def test_with_nobody_enrolled(tmp_path, pipeline):
    from voiceid.enrolment.vault import Vault

    vault = Vault.open(tmp_path / "empty", DEVICE_KEY, create=True)
    verdict = Judge(pipeline, vault, DEVICE_KEY, Lockout(vault)).identify(WAVEFORM, ARMING)
    assert verdict.decision.outcome is Outcome.NOT_ENROLLED


def test_every_decision_has_its_own_id(judge):
    assert len({judge.verify(WAVEFORM, "Bob").decision_id for _ in range(3)}) == 3


def candidate(waveform=WAVEFORM):
    return Candidate(waveform, asked_for=True, began=0.0)


OTHER = Waveform(WAVEFORM.samples.copy(), Source.FILE)
"""The same samples, but another utterance."""


def test_a_ceremony_is_charged_once_before_its_first_candidate_is_scored(judge, pipeline, lockout):
    attempt = Attempt()
    judge.examine_early(candidate(OTHER), attempt, "Ada")
    judge.examine_early(candidate(), attempt, "Ada")
    assert pipeline.charged == [{"Ada": 1}, {"Ada": 1}]
    verdict = judge.verify(WAVEFORM, "Ada", attempt=attempt)
    assert verdict.answer is Answer.DENIED and verdict.early
    assert len(pipeline.charged) == 2, "what is known is not scored again"
    assert failures(lockout)["Ada"] == 1


def test_the_verdict_is_that_on_the_utterance_that_was_delivered(judge, pipeline, lockout):
    for early, late in ((Outcome.ACCEPTED, Outcome.REJECTED), (Outcome.REJECTED, Outcome.ACCEPTED)):
        attempt = Attempt()
        pipeline.outcome = early
        judge.examine_early(candidate(OTHER), attempt, "Ada", request=REQUEST)
        pipeline.outcome = late
        for verdict in (judge.verify(WAVEFORM, "Ada", attempt=attempt), judge.authenticate(WAVEFORM, REQUEST)):
            assert verdict.decision.outcome is late and not verdict.early
            assert verdict.envelope is None or late is Outcome.ACCEPTED


def test_a_void_candidate_is_neither_scored_nor_charged(judge, pipeline, lockout):
    void = candidate()
    void.void.set()
    attempt = Attempt()
    judge.examine_early(void, attempt, "Ada")
    judge.identify_early(void, attempt, ARMING)
    assert pipeline.charged == [] and set(failures(lockout).values()) == {0}


def test_a_candidate_whose_ceremony_ends_without_a_verdict_keeps_its_charge(judge, pipeline, lockout):
    pipeline.outcome = Outcome.ACCEPTED
    for _ in range(5):
        judge.examine_early(candidate(), Attempt(), "Ada")
    assert failures(lockout)["Ada"] == 5 and judge.precheck("Ada").answer is Answer.LOCKED
    assert judge.verify(WAVEFORM, "Ada").answer is Answer.LOCKED, "it was no free try"


def test_the_fifth_failure_is_no_lock_on_its_own_ceremony(judge, pipeline, lockout):
    for _ in range(4):
        judge.verify(WAVEFORM, "Ada")
    pipeline.outcome = Outcome.ACCEPTED
    attempt = Attempt()
    judge.examine_early(candidate(), attempt, "Ada", request=REQUEST)
    assert lockout.report("Ada").locked
    assert judge.authenticate(WAVEFORM, REQUEST, attempt=attempt).envelope is not None
    assert failures(lockout)["Ada"] == 0


def test_a_charge_refused_in_advance_says_how_long_the_lock_lasts_if_it_still_does(judge, pipeline, lockout):
    for _ in range(5):
        judge.verify(WAVEFORM, "Ada")
    asked, attempt = len(pipeline.charged), Attempt()
    judge.examine_early(candidate(), attempt, "Ada")
    verdict = judge.verify(WAVEFORM, "Ada", attempt=attempt)
    assert verdict.answer is Answer.LOCKED and 0 < verdict.retry_after <= 30 and not verdict.early
    lockout.reset("Ada")
    verdict = judge.verify(WAVEFORM, "Ada", attempt=attempt)
    assert verdict.answer is Answer.LOCKED and verdict.retry_after is None, "0 would say that it never ends"
    assert len(pipeline.charged) == asked


def test_two_ceremonies_do_not_share_what_is_known(judge, pipeline, lockout):
    first, second = Attempt(), Attempt()
    pipeline.outcome = Outcome.ACCEPTED
    judge.examine_early(candidate(), first, "Ada")
    pipeline.outcome = Outcome.REJECTED
    assert judge.verify(WAVEFORM, "Ada", attempt=second).answer is Answer.DENIED
    assert judge.verify(WAVEFORM, "Bob", attempt=first).answer is Answer.DENIED, "known of Ada, not of Bob"
    assert failures(lockout) == {"Ada": 2, "Bob": 1, "Cleo": 0}


def test_other_models_or_another_template_make_what_is_known_void(judge, pipeline, party, lockout):
    def replace_models():
        judge.pipeline = Pipeline(lockout)

    def replace_template():
        party.vault.save_template(make_template("Ada", seed=9, user_id=party.template.user_id), replace=True)

    def renew_template():
        party.vault.save_matching("Ada", make_matching(party.vault.load_template("Ada")))

    for change in (replace_models, replace_template, renew_template):
        attempt = Attempt()
        judge.pipeline.outcome = Outcome.ACCEPTED
        judge.examine_early(candidate(), attempt, "Ada")
        change()
        judge.pipeline.outcome = Outcome.REJECTED
        verdict = judge.verify(WAVEFORM, "Ada", attempt=attempt)
        assert verdict.answer is Answer.DENIED and not verdict.early
        lockout.reset("Ada")


def test_a_user_who_is_deleted_meanwhile_is_not_accepted(judge, pipeline, party):
    pipeline.outcome = Outcome.ACCEPTED
    attempt, alone = Attempt(), Attempt()
    judge.examine_early(candidate(), attempt, "Ada")
    judge.identify_early(candidate(), alone, None)
    party.vault.delete_user("Ada")
    pipeline.decide = lambda waveform, template, *, name: not_enrolled(name)
    assert judge.verify(WAVEFORM, "Ada", attempt=attempt).decision.outcome is Outcome.NOT_ENROLLED
    assert judge.identify(WAVEFORM, None, attempt=alone).user != "Ada"


def test_what_fails_early_says_nothing_and_is_told_at_the_end(judge, pipeline, party, monkeypatch):
    def full(name, state):
        raise VaultError("disk full")

    attempt = Attempt()
    with monkeypatch.context() as patch:
        patch.setattr(party.vault, "save_lockout", full)
        judge.examine_early(candidate(), attempt, "Ada")
        assert pipeline.charged == [], "nothing is scored where the charge cannot be written"
        with pytest.raises(VaultError):
            judge.verify(WAVEFORM, "Ada", attempt=attempt)
    pipeline.error = RuntimeError("a fault")
    judge.examine_early(candidate(), attempt, "Ada")
    with pytest.raises(RuntimeError):
        judge.verify(WAVEFORM, "Ada", attempt=attempt)
    assert pipeline.charged == [{"Ada": 1}] * 2


def test_an_armed_claim_is_charged_once_and_settled_by_its_verdict(judge, pipeline, party, lockout):
    attempt = Attempt()
    judge.identify_early(candidate(OTHER), attempt, ARMING)
    judge.identify_early(candidate(), attempt, ARMING)
    assert pipeline.charged == [{"Ada": 1, "Bob": 1, "Cleo": 1}] * 2
    assert judge.identify(WAVEFORM, ARMING, attempt=attempt).early
    assert failures(lockout) == {"Ada": 1, "Bob": 0, "Cleo": 0} and len(pipeline.charged) == 2
    pipeline.outcome, attempt = Outcome.ACCEPTED, Attempt()
    judge.identify_early(candidate(), attempt, ARMING)
    verdict = judge.identify(WAVEFORM, ARMING, attempt=attempt)
    assert verdict.early and party.verify(verdict.envelope.to_bytes(), allow_file=True)


def test_a_claim_that_ends_before_the_utterance_settles_without_a_signature(judge, pipeline, lockout):
    attempt = Attempt()
    judge.identify_early(candidate(), attempt, ARMING)
    assert judge.identify(WAVEFORM, None, attempt=attempt).envelope is None
    assert failures(lockout) == {"Ada": 1, "Bob": 0, "Cleo": 0}
    pipeline.outcome, attempt = Outcome.ACCEPTED, Attempt()
    judge.identify_early(candidate(), attempt, ARMING)
    assert judge.identify(WAVEFORM, None, attempt=attempt).envelope is None
    assert failures(lockout) == {"Ada": 0, "Bob": 0, "Cleo": 0}


def test_an_armed_utterance_that_is_never_delivered_counts_as_inconclusive_for_all(judge, pipeline, lockout):
    for _ in range(10):
        attempt = Attempt()
        pipeline.outcome = Outcome.ACCEPTED
        judge.identify_early(candidate(), attempt, ARMING)
        judge.abandon(attempt)
    assert failures(lockout) == {"Ada": 1, "Bob": 1, "Cleo": 1}


def test_what_nobody_armed_costs_nothing_in_advance_either(judge, pipeline, lockout):
    attempt = Attempt()
    judge.identify_early(candidate(), attempt, None)
    judge.abandon(attempt)
    assert pipeline.charged == [{"Ada": 0, "Bob": 0, "Cleo": 0}] and set(failures(lockout).values()) == {0}
