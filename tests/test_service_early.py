"""Deciding before the end is certain changes no result: the shipped models on real speech, with and without it."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path

import pytest

from tests.cli_helpers import recordings_of
from tests.vault_helpers import DEVICE_KEY
from voiceid.audio import read_waveform
from voiceid.credentials.authenticator import Authenticator
from voiceid.enrolment.enrol import EnrolmentSession
from voiceid.enrolment.vault import Vault
from voiceid.models.card import ROLES
from voiceid.pipeline import AuthenticationRequest, Pipeline
from voiceid.scoring.liveness import LivenessModel
from voiceid.scoring.spoofing import SpoofingModel
from voiceid.service.attempt import Attempt, Candidate
from voiceid.service.judge import Judge, Verdict
from voiceid.service.lockout import Lockout
from voiceid.service.session import Arming
from voiceid.settings import ModelSettings, Settings
from voiceid.types import SAMPLE_RATE, Decision, Outcome, Waveform
from voiceid.units.privacy import PrivacyProfile

OWNER, STRANGER = "ls1089", "ls121"
RP = "shop.example.org"


@pytest.fixture(scope="module")
def pipeline(lenient_models: Path) -> Pipeline:
    cards = {role: str(lenient_models / f"{getattr(ModelSettings(), role)}.json") for role in ROLES}
    return Pipeline.load(Settings(models=ModelSettings(**cards)))


@pytest.fixture(scope="module")
def waves(corpus: Path) -> dict[str, list[Waveform]]:
    found = recordings_of(corpus, (OWNER, STRANGER), 12)
    return {speaker: [read_waveform(file) for file in files] for speaker, files in found.items()}


@pytest.fixture(scope="module")
def vault(pipeline: Pipeline, waves: dict[str, list[Waveform]], tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """Ada and Bob are enrolled, Ada also at a relying party."""
    vault = Vault.open(tmp_path_factory.mktemp("early") / "vault", DEVICE_KEY, create=True)
    for name, who in (("ada", OWNER), ("bob", STRANGER)):
        session = EnrolmentSession(pipeline.judges, pipeline.settings, ())
        for wave in waves[who][:6]:
            session.add(wave)
        vault.save_template(session.finish(name, owner_uid=1000).template)
    accepted = Decision(Outcome.ACCEPTED, ("accepted",), user="ada")
    Authenticator(vault, DEVICE_KEY).register("ada", rp_id=RP, challenge=bytes(32), decision=accepted)
    return vault


def forgive(vault: Vault) -> None:
    """Forget all failures."""
    for name in ("ada", "bob"):
        Lockout(vault).reset(name)


@pytest.fixture
def judge(pipeline: Pipeline, vault: Vault) -> Judge:
    forgive(vault)
    return Judge(pipeline, vault, DEVICE_KEY, Lockout(vault))


@pytest.fixture(scope="module")
def command(pipeline: Pipeline, vault: Vault, waves: dict[str, list[Waveform]]) -> Waveform:
    """Speech of Ada that is taken for hers, also among two."""
    templates = [vault.load_template(name) for name in ("ada", "bob")]
    return next(wave for wave in waves[OWNER][6:] if pipeline.identify(wave, templates).name == "ada")


def request() -> AuthenticationRequest:
    return AuthenticationRequest("ada", RP, secrets.token_bytes(32), None, "a test")


def assert_same(early: Verdict, late: Verdict) -> None:
    """The same in everything but the measured times; the stages that were timed are the same."""
    assert early.early and not late.early
    assert early.decision.timings.keys() == late.decision.timings.keys()
    assert dataclasses.replace(early.decision, timings={}) == dataclasses.replace(late.decision, timings={})
    assert (early.user, early.source) == (late.user, late.source)
    assert (early.envelope is None) is (late.envelope is None)
    if early.envelope is not None and late.envelope is not None:
        assert early.envelope.contents.units == late.envelope.contents.units


def test_the_verdict_is_the_same(
    judge: Judge, vault: Vault, command: Waveform, waves: dict[str, list[Waveform]]
) -> None:
    word = Waveform(command.samples[:SAMPLE_RATE], command.source)
    outcomes = []
    for wave in (command, waves[STRANGER][6], word):
        forgive(vault)
        attempt = Attempt()
        judge.examine_early(Candidate(wave, True, 0.0), attempt, "ada", request=request())
        late = judge.authenticate(wave, request())
        assert_same(judge.authenticate(wave, request(), attempt=attempt), late)
        outcomes.append(late.decision.outcome)
        attempt = Attempt()
        judge.examine_early(Candidate(wave, True, 0.0), attempt, "ada")
        assert_same(judge.verify(wave, "ada", attempt=attempt), judge.verify(wave, "ada"))
    assert outcomes == [Outcome.ACCEPTED, Outcome.REJECTED, Outcome.INCONCLUSIVE]


def test_who_is_identified_is_the_same(judge: Judge, command: Waveform, waves: dict[str, list[Waveform]]) -> None:
    for wave in (command, waves[STRANGER][7]):
        for arming in (None, Arming(RP, "a test", secrets.token_bytes(32))):
            attempt = Attempt()
            judge.identify_early(Candidate(wave, False, 0.0), attempt, arming)
            assert_same(judge.identify(wave, arming, attempt=attempt), judge.identify(wave, arming))


def test_units_are_of_the_profile_that_holds_when_they_are_signed(
    judge: Judge, vault: Vault, command: Waveform
) -> None:
    attempt = Attempt()
    judge.examine_early(Candidate(command, True, 0.0), attempt, "ada", request=request())
    profile = PrivacyProfile(codebook=50)
    vault.set_privacy_profile(RP, profile)
    try:
        verdict = judge.authenticate(command, request(), attempt=attempt)
        assert verdict.early and verdict.envelope is not None
        assert verdict.envelope.contents.units.profile == profile
        assert_same(verdict, judge.authenticate(command, request()))
    finally:
        vault.set_privacy_profile(RP, PrivacyProfile())


def test_resumed_speech_breaks_the_work_off_between_two_stages(
    judge: Judge, command: Waveform, waves: dict[str, list[Waveform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate, attempt, entered = Candidate(waves[STRANGER][6], True, 0.0), Attempt(), []
    spoofing, liveness = SpoofingModel.windows, LivenessModel.score

    def resumed(self: SpoofingModel, samples: object) -> object:
        candidate.void.set()
        return spoofing(self, samples)

    monkeypatch.setattr(SpoofingModel, "windows", resumed)
    monkeypatch.setattr(LivenessModel, "score", lambda self, x: (entered.append(self), liveness(self, x))[1])
    judge.examine_early(candidate, attempt, "ada")
    assert entered == [] and attempt.kept is None and attempt.charged == ("ada",)
    verdict = judge.verify(command, "ada", attempt=attempt)
    assert verdict.decision.accepted and not verdict.early and len(entered) == 1


def test_other_models_judge_anew(judge: Judge, command: Waveform) -> None:
    """A reload between the last word and the certain end: the thresholds in force are those of the new cards."""
    attempt = Attempt()
    judge.examine_early(Candidate(command, True, 0.0), attempt, "ada")
    judge.pipeline = Pipeline.load(Settings())
    verdict = judge.verify(command, "ada", attempt=attempt)
    assert not verdict.early and verdict.decision.evidence is not None
    expected = judge.pipeline.judges.spoofing.card.threshold("balanced")
    assert verdict.decision.evidence.spoofing.threshold == expected
