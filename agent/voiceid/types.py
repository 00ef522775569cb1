"""The values that flow through the pipeline, in the order in which they are made.

All arrays are NumPy, audio is float32 in [-1, 1], times are seconds, every dataclass is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""The one sample rate (Hz) behind the audio front end."""

Samples = NDArray[np.float32]


@unique
class Source(StrEnum):
    """Where audio came from; it is signed into the envelope."""

    MICROPHONE = "microphone"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Waveform:
    """Mono audio at 16 kHz, as captured: ``samples`` float32 (n,), nominally in [-1, 1]."""

    samples: Samples
    source: Source

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time, in seconds from the start of the samples it refers to."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@unique
class QualityFault(StrEnum):
    """Why an utterance cannot be judged: ask for another."""

    SILENT = "silent"
    TOO_SHORT = "too_short"
    TOO_QUIET = "too_quiet"
    CLIPPED = "clipped"
    TOO_NOISY = "too_noisy"


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of the captured audio, before the level policy.

    ``net_speech`` in seconds, ``speech_dbfs`` the RMS level of the speech, ``snr_db`` an estimate (capped at 60),
    ``clipped`` the fraction of samples at full scale, ``dc_offset`` the mean.
    """

    seconds: float
    net_speech: float
    speech_dbfs: float
    snr_db: float
    clipped: float
    dc_offset: float
    faults: tuple[QualityFault, ...]

    @property
    def usable(self) -> bool:
        return not self.faults


@dataclass(frozen=True, slots=True)
class Utterance:
    """What every model sees: trimmed to its speech, without DC, at the policy level.

    ``samples`` float32 (n,) at 16 kHz; ``speech`` the voiced segments within them.
    """

    samples: Samples
    speech: tuple[Segment, ...]
    quality: Quality
    source: Source

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    def net_speech(self) -> Samples:
        """The speech segments, joined: float32 (m,), m <= n."""
        parts = [self.samples[int(s.start * SAMPLE_RATE) : int(s.end * SAMPLE_RATE)] for s in self.speech]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Score:
    """One judge's word: ``raw`` as the model gives it, ``llr`` calibrated to a natural-log likelihood ratio.

    Higher always speaks for the owner (same person, bona fide, live, one voice throughout).
    """

    raw: float
    llr: float
    threshold: float
    """The least ``llr`` that passes."""
    shift: float = 0.0
    """What was taken off ``llr`` because the owner's enrolment scores high, or added where it scores low."""
    compared: bool = True
    """False where there was no enrolled speaker whom the judge needs to compare with: it can fail, but not pass."""

    @property
    def passed(self) -> bool:
        return self.llr >= self.threshold

    @property
    def verdict(self) -> bool | None:
        """What is shown of the score: whether it passed, None where that could not be found out."""
        return None if self.passed and not self.compared else self.passed


@dataclass(frozen=True, slots=True)
class WindowScore:
    """The scores of one sliding window, for ``explain``."""

    segment: Segment
    identity: float
    spoofing: float
    guard: float | None = None
    """None where no guard is on."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the judges say of one utterance; ``guard`` is None unless it is switched on.

    ``takeover`` is there for who the identity judge refuses: whether it is a stranger throughout, or the owner in part.
    """

    identity: Score
    spoofing: Score
    liveness: Score
    consistency: Score
    windows: tuple[WindowScore, ...] = ()
    guard: Score | None = None
    takeover: Score | None = None

    def scores(self) -> dict[str, Score]:
        """The word of each judge that was asked, by name."""
        names = ("identity", "spoofing", "liveness", "consistency", "takeover", "guard")
        return {name: score for name in names if (score := getattr(self, name)) is not None}


@unique
class Outcome(StrEnum):
    """The closed set of outcomes, in order of precedence."""

    LOCKED_OUT = "locked_out"
    NOT_ENROLLED = "not_enrolled"
    INCONCLUSIVE = "inconclusive"
    SPOOF = "spoof"
    REPLAY = "replay"
    INCONSISTENT = "inconsistent"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome with its grounds. Scores are for the process and for admins, never for ordinary clients.

    ``voiceid`` is the fused probability in [0, 1]; it and ``evidence`` are None where nothing was scored.
    ``timings`` are milliseconds per stage. ``user`` is the enrolled name that was judged: an acceptance unlocks the
    credentials of that user and of no other.
    """

    outcome: Outcome
    reasons: tuple[str, ...]
    quality: Quality | None = None
    evidence: Evidence | None = None
    voiceid: float | None = None
    voiceid_threshold: float | None = None
    timings: dict[str, float] = field(default_factory=dict)
    user: str | None = None

    @property
    def accepted(self) -> bool:
        return self.outcome is Outcome.ACCEPTED
