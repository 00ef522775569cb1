"""The one pipeline on real speech with the shipped models: enrolment, decisions, identification, envelopes.

Acceptance is tested with lenient cards, refusal and gates with the shipped ones.
"""

from __future__ import annotations

import dataclasses
import secrets
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from voiceid.audio import prepare, read_waveform
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.enrol import EnrolmentFault, EnrolmentSession
from voiceid.enrolment.matching import mean_direction
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError, EnrolmentError, ModelError
from voiceid.models.card import ROLES
from voiceid.models.store import find_model
from voiceid.pipeline import AuthenticationRequest, Pipeline
from voiceid.relying_party import verify, verify_registration
from voiceid.scoring.identity import IdentityModel
from voiceid.settings import IdentificationSettings, ModelSettings, Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import SAMPLE_RATE, Outcome, QualityFault, Source, Waveform

OWNER, OTHER = "ls1089", "ls121"
"""Two test-split speakers: a man and a woman whom no model has heard."""
RP = "bank.example"


@pytest.fixture(scope="module")
def pipeline(lenient_models: Path) -> Pipeline:
    cards = {role: str(lenient_models / f"{getattr(ModelSettings(), role)}.json") for role in ROLES}
    return Pipeline.load(Settings(models=ModelSettings(**cards)))


@pytest.fixture(scope="module")
def shipped() -> Pipeline:
    return Pipeline.load(Settings())


def clips(corpus: Path, speaker: str, count: int, *, seconds: float = 6.0) -> list[Waveform]:
    files = sorted((corpus / "opus" / "ls-test-clean" / speaker).iterdir())
    waves = (read_waveform(file) for file in files)
    long_enough = (wave for wave in waves if wave.seconds >= seconds)
    return [
        Waveform(wave.samples[: int(seconds * SAMPLE_RATE)], Source.FILE)
        for wave, _ in zip(long_enough, range(count), strict=False)
    ]


def enrol(pipeline: Pipeline, waves: list[Waveform], name: str, others: tuple[Template, ...] = ()) -> Template:
    session = EnrolmentSession(pipeline.judges, pipeline.settings, others)
    for wave in waves:
        session.add(wave)
    return session.finish(name, owner_uid=1000).template


@pytest.fixture(scope="module")
def owner_clips(corpus: Path) -> list[Waveform]:
    return clips(corpus, OWNER, 9)


@pytest.fixture(scope="module")
def template(pipeline: Pipeline, owner_clips: list[Waveform]) -> Template:
    return enrol(pipeline, owner_clips[:5], "ada")


def test_the_owner_is_accepted_and_a_stranger_is_not(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path
) -> None:
    accepted = [pipeline.decide(wave, template).accepted for wave in owner_clips[5:]]
    assert sum(accepted) >= 3, "at most one of four genuine commands may be refused"
    refused = [pipeline.decide(wave, template).outcome is Outcome.REJECTED for wave in clips(corpus, OTHER, 4)]
    assert sum(refused) >= 3, "at most one of four strangers may come through"


def test_a_takeover_is_asked_of_who_identity_refuses(
    shipped: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path
) -> None:
    gate = shipped.judges.consistency.takeover
    assert gate is not None
    own, strange = owner_clips[5].samples, clips(corpus, OTHER, 1)[0].samples
    asked = {}
    for name, samples in (("own", own), ("strange", strange), ("spliced", np.concatenate([own[:24_000], strange]))):
        decision = shipped.decide(Waveform(samples, Source.FILE), template)
        assert decision.evidence is not None
        assert (decision.evidence.takeover is None) == decision.evidence.identity.passed
        asked[name] = decision.evidence.takeover
    assert asked["own"] is None
    stranger, splice = asked["strange"], asked["spliced"]
    assert stranger is not None and splice is not None
    assert stranger.passed and splice.llr < stranger.llr - 2
    assert stranger.threshold == gate.thresholds["balanced"].value


def test_shipped_thresholds_gate_every_judge(
    shipped: Pipeline, pipeline: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path
) -> None:
    """The same scores as with lenient cards, held against the thresholds of the shipped ones."""
    judges = shipped.judges
    identity_llr: dict[bool, list[float]] = {True: [], False: []}
    for own, wave in [(True, w) for w in owner_clips[5:]] + [(False, w) for w in clips(corpus, OTHER, 4)]:
        decision, lenient = shipped.decide(wave, template), pipeline.decide(wave, template)
        assert decision.evidence is not None
        assert lenient.evidence is not None
        gates = {
            Outcome.SPOOF: (decision.evidence.spoofing, judges.spoofing.card.threshold("balanced")),
            Outcome.REPLAY: (decision.evidence.liveness, judges.liveness.card.threshold("balanced")),
            Outcome.INCONSISTENT: (
                decision.evidence.consistency,
                judges.consistency.thresholds["balanced"].value,
            ),
            Outcome.REJECTED: (decision.evidence.identity, judges.identity.card.threshold("balanced")),
        }
        assert [score.threshold for score, _ in gates.values()] == [value for _, value in gates.values()]
        assert decision.voiceid_threshold == judges.fusion.card.threshold("balanced")
        assert decision.voiceid == lenient.voiceid
        assert decision.evidence.identity.llr == lenient.evidence.identity.llr
        failed = [outcome for outcome, (score, value) in gates.items() if score.llr < value]
        takeover = decision.evidence.takeover
        if takeover is not None and not takeover.passed:
            failed = sorted([*failed, Outcome.INCONSISTENT], key=list(Outcome).index)
        if not failed and decision.voiceid < judges.fusion.card.threshold("balanced"):
            failed = [Outcome.REJECTED]
        assert decision.outcome is (failed[0] if failed else Outcome.ACCEPTED)
        identity_llr[own].append(decision.evidence.identity.llr)
    assert np.mean(identity_llr[True]) > np.mean(identity_llr[False]) + 2


def test_a_decision_carries_its_grounds(pipeline: Pipeline, template: Template, owner_clips: list[Waveform]) -> None:
    decision = pipeline.decide(owner_clips[5], template)
    assert decision.user == "ada"
    assert decision.quality is not None
    assert decision.quality.usable
    assert decision.voiceid is not None
    assert 0 <= decision.voiceid <= 1
    assert decision.evidence is not None
    assert len(decision.evidence.windows) >= 5
    assert {"prepare", "identity", "spoofing", "liveness", "consistency", "fusion", "total"} <= set(decision.timings)
    assert decision == dataclasses.replace(pipeline.decide(owner_clips[5], template), timings=decision.timings)


class Counting(IdentityModel):
    """The identity model, counting how often it is asked."""

    asked = 0

    def embed_stretches(self, samples: np.ndarray, stretches: np.ndarray) -> np.ndarray:
        self.asked += 1
        return super().embed_stretches(samples, stretches)


def test_the_identity_network_runs_once_an_utterance(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], lenient_models: Path
) -> None:
    model = Counting(find_model(str(lenient_models / "identity-pi.json"), "identity"))
    assert model.one_pass
    counted = dataclasses.replace(pipeline, judges=dataclasses.replace(pipeline.judges, identity=model))
    decision = counted.decide(owner_clips[5], template)
    assert decision.evidence == pipeline.decide(owner_clips[5], template).evidence
    assert model.asked == 1
    identified = counted.identify(owner_clips[5], [template]).decision
    assert identified == dataclasses.replace(decision, timings=identified.timings)
    assert model.asked == 2
    EnrolmentSession(counted.judges, counted.settings).add(owner_clips[5])
    assert model.asked == 3


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        (np.zeros(3 * SAMPLE_RATE, np.float32), QualityFault.SILENT),
        (None, QualityFault.TOO_SHORT),
    ],
)
def test_silence_and_short_clips_are_inconclusive(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], samples: np.ndarray | None, fault: QualityFault
) -> None:
    wave = Waveform(owner_clips[5].samples[: int(0.3 * SAMPLE_RATE)] if samples is None else samples, Source.FILE)
    decision = pipeline.decide(wave, template)
    assert decision.outcome is Outcome.INCONCLUSIVE
    assert decision.quality is not None
    assert decision.quality.faults == (fault,)
    assert decision.evidence is None
    assert decision.voiceid is None


def test_nobody_enrolled(pipeline: Pipeline, owner_clips: list[Waveform]) -> None:
    decision = pipeline.decide(owner_clips[0], None, name="bob")
    assert decision.outcome is Outcome.NOT_ENROLLED
    assert decision.reasons == ("'bob' is not enrolled on this device",)
    nobody = pipeline.identify(owner_clips[0], [])
    assert nobody.name is None and nobody.decision.outcome is Outcome.NOT_ENROLLED
    assert nobody.decision.reasons == ("nobody is enrolled; run 'voiceid enroll'",)


def test_identification_is_open_set(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path
) -> None:
    other = enrol(pipeline, clips(corpus, OTHER, 5), "bob", (template,))
    assert pipeline.identify(owner_clips[6], [other, template]).candidates[0][0] == "ada"
    unknown = pipeline.identify(clips(corpus, "ls2094", 1)[0], [other, template])
    assert unknown.name is None
    assert {name for name, _ in unknown.candidates} == {"ada", "bob"}


def test_users_who_cannot_be_told_apart_are_named_and_none_is_chosen(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path
) -> None:
    accepted = [wave for wave in owner_clips[5:] if pipeline.decide(wave, template).accepted]
    wave = max(accepted, key=lambda wave: pipeline.identify(wave, [template]).candidates[0][1])
    twin = dataclasses.replace(template, name="bea")
    other = enrol(pipeline, clips(corpus, OTHER, 5), "bob")
    tied = pipeline.identify(wave, [other, twin, template])
    assert tied.name is None and set(tied.ambiguous) == {"ada", "bea"}
    assert tied.decision.outcome is Outcome.REJECTED
    assert "'ada'" in tied.decision.reasons[0] and "'bea'" in tied.decision.reasons[0]
    clear = pipeline.identify(wave, [other, template])
    assert clear.name == "ada" and clear.ambiguous == ()
    again = enrol(pipeline, owner_clips[:4], "cleo")
    lead = abs(dict(pipeline.identify(wave, [template, again]).candidates)["cleo"] - clear.candidates[0][1])
    for least, ambiguous in ((lead + 0.01, True), (lead - 0.01, False)):
        settings = dataclasses.replace(pipeline.settings, identification=IdentificationSettings(max(0.0, least)))
        found = dataclasses.replace(pipeline, settings=settings).identify(wave, [template, again])
        assert (found.name is None) == bool(found.ambiguous) == ambiguous


def test_enrolment_refuses_silence_strangers_and_too_little(
    pipeline: Pipeline, owner_clips: list[Waveform], corpus: Path
) -> None:
    session = EnrolmentSession(pipeline.judges, pipeline.settings)
    assert session.add(Waveform(np.zeros(SAMPLE_RATE * 3, np.float32), Source.FILE)).fault is EnrolmentFault.SILENT
    assert session.progress == 0
    first = session.add(owner_clips[0])
    assert first.accepted
    assert 0 < first.progress < 1
    again = session.add(owner_clips[0])
    assert again.fault is EnrolmentFault.REPEATED
    assert again.progress == first.progress
    stranger = session.add(clips(corpus, OTHER, 1)[0])
    assert stranger.fault is EnrolmentFault.OTHER_SPEAKER
    assert stranger.progress == first.progress
    with pytest.raises(EnrolmentError, match="1 of 3 utterances"):
        session.finish("ada", owner_uid=0)


def test_enrolment_compares_every_utterance_with_all_others_at_the_end(
    pipeline: Pipeline, owner_clips: list[Waveform]
) -> None:
    judges, settings = pipeline.judges, pipeline.settings
    voices = [judges.hear(prepare(wave, settings.quality), Stopwatch()) for wave in owner_clips]

    def llr(at: int, others: tuple[int, ...]) -> float:
        enrolled = mean_direction(np.stack([voices[other].whole for other in others]))
        return judges.identity_score(enrolled, voices[at].whole, voices[at].seconds).llr

    def margin(order: tuple[int, ...]) -> tuple[float, float]:
        """The least score as they come, and that against all others."""
        coming = min(llr(at, order[:place]) for place, at in enumerate(order) if place)
        return coming, min(llr(at, tuple(other for other in order if other != at)) for at in order)

    order = max(permutations(range(len(voices)), 3), key=lambda order: float(np.subtract(*margin(order))))
    coming, against_others = margin(order)
    assert against_others < coming
    strict = dataclasses.replace(settings.enrolment, same_speaker_llr=(coming + against_others) / 2)
    session = EnrolmentSession(judges, dataclasses.replace(settings, enrolment=strict))
    session.add(Waveform(np.zeros(SAMPLE_RATE * 3, np.float32), Source.FILE))
    assert all(session.add(owner_clips[at]).accepted for at in order) and session.complete
    worst = min(order, key=lambda at: llr(at, tuple(other for other in order if other != at)))
    with pytest.raises(EnrolmentError, match=rf"of 4 utterances no\. [\d, ]*{order.index(worst) + 2}\b"):
        session.finish("ada", owner_uid=0)


def test_a_template_of_another_model_is_refused(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform]
) -> None:
    foreign = dataclasses.replace(template, model_sha256="0" * 64)
    with pytest.raises(EnrolmentError, match="run 'voiceid users renew ada', which keeps all credentials"):
        pipeline.decide(owner_clips[5], foreign)
    with pytest.raises(EnrolmentError, match="users renew"):
        pipeline.identify(owner_clips[5], [foreign])
    found = pipeline.identify(owner_clips[5], [dataclasses.replace(foreign, name="bob"), template])
    assert [name for name, _ in found.candidates] == ["ada"]


def test_an_unknown_operating_model_is_refused() -> None:
    with pytest.raises(ModelError, match="no such model card"):
        Pipeline.load(Settings(models=ModelSettings(spoofing="best-ever")))


def test_an_accepted_command_becomes_a_verified_envelope_and_nothing_else_does(
    pipeline: Pipeline, template: Template, owner_clips: list[Waveform], corpus: Path, tmp_path: Path
) -> None:
    key = DeviceKey(secrets.token_bytes(32))
    vault = Vault.open(tmp_path / "vault", key, create=True)
    vault.save_template(template)
    authenticator = Authenticator(vault, key)
    decisions = [(wave, pipeline.decide(wave, template)) for wave in owner_clips[5:]]
    wave, decision = next((wave, decision) for wave, decision in decisions if decision.accepted)
    challenge = secrets.token_bytes(32)
    registered = authenticator.register("ada", rp_id=RP, challenge=challenge, decision=decision)
    registration = verify_registration(registered.response, expected_challenge=challenge, expected_rp_id=RP)

    nonce = secrets.token_bytes(32)
    request = AuthenticationRequest("ada", RP, nonce, purpose="pay 5 euro")
    result = pipeline.authenticate(wave, vault, authenticator, request)
    assert result.decision.accepted
    assert result.envelope is not None
    data = result.envelope.to_bytes()
    assert len(data) < wave.samples.size * 2 / 50, "an envelope is a small fraction of the audio"
    verified = verify(
        data,
        registration=registration,
        expected_nonce=nonce,
        expected_rp_id=RP,
        expected_purpose="pay 5 euro",
        expected_codebook_hash=pipeline.tokenizer.codebook_hash(100),
        allow_file=True,
    )
    assert verified.source is Source.FILE
    assert verified.units is not None
    assert len(verified.units.units) > 20

    stranger = pipeline.authenticate(clips(corpus, OTHER, 1)[0], vault, authenticator, request)
    assert not stranger.decision.accepted
    assert stranger.envelope is None
    nobody = pipeline.authenticate(wave, vault, authenticator, dataclasses.replace(request, user="bob"))
    assert nobody.decision.outcome is Outcome.NOT_ENROLLED
    with pytest.raises(CredentialError, match="register one first"):
        pipeline.authenticate(wave, vault, authenticator, dataclasses.replace(request, rp_id="shop.example"))
