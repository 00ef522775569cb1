"""The policy: precedence of outcomes, and no score that buys back a failed gate."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceid.scoring.policy import decide, inconclusive
from voiceid.types import Evidence, Outcome, Quality, QualityFault, Score

GOOD = Quality(3.0, 2.5, -26.0, 30.0, 0.0, 0.0, ())
PASS, FAIL = Score(0.0, 5.0, 1.0), Score(0.0, -5.0, 1.0)
EVIDENCE = Evidence(identity=PASS, spoofing=PASS, liveness=PASS, consistency=PASS)
ORDER = (
    ("spoofing", Outcome.SPOOF),
    ("liveness", Outcome.REPLAY),
    ("consistency", Outcome.INCONSISTENT),
    ("takeover", Outcome.INCONSISTENT),
    ("identity", Outcome.REJECTED),
)


def test_all_gates_passed_is_accepted() -> None:
    decision = decide(GOOD, EVIDENCE, 0.99, 0.5)
    assert decision.outcome is Outcome.ACCEPTED
    assert decision.accepted


@pytest.mark.parametrize("failed", [c for n in range(1, 6) for c in itertools.combinations(range(5), n)])
def test_the_first_failed_gate_names_the_outcome(failed: tuple[int, ...]) -> None:
    evidence = dataclasses.replace(EVIDENCE, **{ORDER[i][0]: FAIL for i in failed})
    decision = decide(GOOD, evidence, 0.99, 0.5)
    assert decision.outcome is ORDER[failed[0]][1]
    assert len(decision.reasons) == len(failed)


@given(
    llrs=st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=4, max_size=4),
    voiceid=st.floats(0, 1) | st.just(math.nan),
)
def test_accepted_if_and_only_if_every_gate_passes(llrs: list[float], voiceid: float) -> None:
    evidence = Evidence(*(Score(llr, llr, 1.0) for llr in llrs))
    decision = decide(GOOD, evidence, voiceid, 0.5)
    assert decision.accepted == (all(llr >= 1.0 for llr in llrs) and voiceid >= 0.5)


def test_reasons_carry_values() -> None:
    decision = decide(GOOD, dataclasses.replace(EVIDENCE, spoofing=FAIL), 0.2, 0.5)
    assert decision.reasons == (
        "sounds artificial: spoofing -5.00 is below +1.00",
        "VoiceID score 0.200 is below 0.500",
    )


def test_unusable_audio_is_inconclusive_with_reasons() -> None:
    quality = dataclasses.replace(GOOD, net_speech=0.3, faults=(QualityFault.TOO_SHORT, QualityFault.TOO_NOISY))
    decision = inconclusive(quality)
    assert decision.outcome is Outcome.INCONCLUSIVE
    assert decision.reasons == ("too little speech: 0.3 s", "too noisy: 30 dB signal-to-noise ratio")
