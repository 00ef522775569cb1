"""The demo's service and its tables: what is verified, what is refused, and what is called wrong."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from tests.vault_helpers import Party
from tools.demo.cases import Case
from tools.demo.report import outcome_table, results, sent_table
from tools.demo.run import Trial
from tools.demo.service import PURPOSE, RP_ID, Service
from tools.demo.voices import Clip
from voiceid.errors import EnvelopeError
from voiceid.types import Decision, Evidence, Outcome, Quality, Score, Source, Utterance

SAMPLES = np.zeros(48_000, np.float32)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path / "vault", rp_id=RP_ID)


@pytest.fixture
def service(party):
    service = Service()
    challenge = service.nonce()
    service.register(party.register(challenge=challenge).response, challenge)
    return service


def sign(party, nonce, source=Source.FILE):
    return party.authenticate(nonce=nonce, source=source, purpose=PURPOSE, credential_id=None).to_bytes()


def test_an_envelope_from_a_file_is_verified_twice_and_refused_by_default(party, service):
    nonce = service.nonce()
    envelope = sign(party, nonce)
    receipt = service.receive(envelope, nonce)
    assert receipt.verified.source is Source.FILE
    assert receipt.size == len(envelope)
    assert "file" in receipt.refusal


def test_a_replayed_or_microphone_envelope_does_not_pass_as_the_demo_expects(party, service):
    nonce = service.nonce()
    envelope = sign(party, nonce)
    service.receive(envelope, nonce)
    with pytest.raises(Exception, match=r"(?i)count"):
        service.receive(envelope, nonce)
    other = service.nonce()
    with pytest.raises(EnvelopeError, match="as if it came from a microphone"):
        service.receive(sign(party, other, Source.MICROPHONE), other)


def trial(outcome, expected, receipt=None, identity=2.0):
    score = Score(0.5, 3.0, 1.0)
    evidence = Evidence(Score(0.1, identity, 1.0), score, score, score)
    decision = Decision(outcome, ("a reason",), None, evidence, 0.9, 0.5, {"identity": 12.0, "total": 30.0})
    case = Case("a case", "a-case", expected, ())
    quality = Quality(3.0, 2.5, -26.0, 30.0, 0.0, 0.0, ())
    utterance = Utterance(SAMPLES, (), quality, Source.FILE)
    return Trial("a-case", case, Clip("a clip", SAMPLES), decision, utterance, np.zeros(0, np.int16), receipt)


def test_a_trial_is_right_only_with_the_expected_outcome_and_its_envelope(party, service):
    nonce = service.nonce()
    receipt = service.receive(sign(party, nonce), nonce)
    assert trial(Outcome.ACCEPTED, Outcome.ACCEPTED, receipt).right
    assert not trial(Outcome.ACCEPTED, Outcome.ACCEPTED).right
    assert not trial(Outcome.SPOOF, Outcome.REPLAY).right
    assert trial(Outcome.REPLAY, Outcome.REPLAY).right


def test_tables_and_results_tell_the_same(party, service):
    nonce = service.nonce()
    good = trial(Outcome.ACCEPTED, Outcome.ACCEPTED, service.receive(sign(party, nonce), nonce))
    bad = trial(Outcome.REJECTED, Outcome.REPLAY, identity=-7.25)
    console = Console(width=160, record=True, file=io.StringIO())
    for table in (outcome_table([good, bad]), sent_table([good, bad])):
        console.print(table)
    text = console.export_text()
    assert "✓ accepted" in text and "✗ rejected" in text and "-7.25" in text
    table = json.loads(json.dumps(results([good, bad])))
    assert (table["right"], table["trials"]) == (1, 2)
    assert table["recordings"][1]["scores"]["identity"] == {"llr": -7.25, "threshold": 1.0}
    assert table["recordings"][0]["envelope_bytes"] < table["recordings"][0]["audio_bytes"]
