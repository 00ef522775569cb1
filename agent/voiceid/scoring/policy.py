"""The policy: from evidence to one outcome, in the order of precedence of :class:`voiceid.types.Outcome`.

The gates are AND-ed: no score, however high, makes up for a failed one.
"""

from __future__ import annotations

from voiceid.types import Decision, Evidence, Outcome, Quality, QualityFault, Score

FAULT_TEXT = {
    QualityFault.SILENT: "nothing but silence was delivered",
    QualityFault.TOO_SHORT: "too little speech: {net_speech:.1f} s",
    QualityFault.TOO_QUIET: "too quiet: {speech_dbfs:.0f} dBFS",
    QualityFault.CLIPPED: "clipped: {clipped:.1%} of samples at full scale",
    QualityFault.TOO_NOISY: "too noisy: {snr_db:.0f} dB signal-to-noise ratio",
}


def describe_faults(quality: Quality) -> tuple[str, ...]:
    """One sentence a fault, with its value."""
    values = {name: getattr(quality, name) for name in ("net_speech", "speech_dbfs", "clipped", "snr_db")}
    return tuple(FAULT_TEXT[fault].format(**values) for fault in quality.faults)


def inconclusive(quality: Quality) -> Decision:
    """The decision on an utterance that the quality gate refused."""
    return Decision(Outcome.INCONCLUSIVE, describe_faults(quality), quality)


def not_enrolled(name: str) -> Decision:
    """The decision where there is no template to compare with."""
    return Decision(Outcome.NOT_ENROLLED, (f"{name!r} is not enrolled on this device",))


def decide(quality: Quality, evidence: Evidence, voiceid: float, voiceid_threshold: float) -> Decision:
    """Apply every gate; the outcome is the first that failed, the reasons name all that did."""
    gates: tuple[tuple[Score | None, Outcome, str], ...] = (
        (evidence.spoofing, Outcome.SPOOF, "sounds artificial: spoofing"),
        (evidence.guard, Outcome.SPOOF, "sounds like someone else when copied: guard"),
        (evidence.liveness, Outcome.REPLAY, "sounds like a loudspeaker: liveness"),
        (evidence.consistency, Outcome.INCONSISTENT, "the speaker changes within the utterance: consistency"),
        (evidence.takeover, Outcome.INCONSISTENT, "the enrolled speaker in part, another in the rest: takeover"),
        (evidence.identity, Outcome.REJECTED, "not the enrolled speaker: identity"),
    )
    failed = [(outcome, f"{text} {_compare(score)}") for score, outcome, text in gates if score and not score.passed]
    # Written so that a score that is not a number fails.
    if not voiceid >= voiceid_threshold:
        failed.append((Outcome.REJECTED, f"VoiceID score {voiceid:.3f} is below {voiceid_threshold:.3f}"))
    outcome = failed[0][0] if failed else Outcome.ACCEPTED
    reasons = tuple(reason for _, reason in failed) or ("all judges agree",)
    return Decision(outcome, reasons, quality, evidence, voiceid, voiceid_threshold)


def _compare(score: Score) -> str:
    return f"{score.llr:+.2f} is below {score.threshold:+.2f}"
