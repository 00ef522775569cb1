"""The judges and their fusion, loaded once and asked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from voiceid.audio.level import SPEECH_DBFS
from voiceid.errors import ModelError
from voiceid.models.card import Card
from voiceid.models.store import find_model
from voiceid.scoring.consistency import (
    ConsistencyParameters,
    consistency_parameters,
    consistency_score,
    takeover_score,
)
from voiceid.scoring.fusion import FusionModel
from voiceid.scoring.guard import GuardModel, falls
from voiceid.scoring.identity import IdentityModel, direction
from voiceid.scoring.liveness import LivenessModel
from voiceid.scoring.owner import Baseline, shift_of
from voiceid.scoring.spoofing import SpoofingModel
from voiceid.scoring.voice import Voice, hear
from voiceid.settings import ModelSettings
from voiceid.stopwatch import Stopwatch
from voiceid.types import SAMPLE_RATE, Evidence, Score, Segment, Utterance, WindowScore


@dataclass(frozen=True, slots=True)
class Judgement:
    """Evidence with the fused probability (the VoiceID score) and the least that passes."""

    evidence: Evidence
    voiceid: float
    voiceid_threshold: float


@dataclass(frozen=True, slots=True)
class Judges:
    """Loaded models at one operating point; :meth:`load` makes them."""

    identity: IdentityModel
    spoofing: SpoofingModel
    liveness: LivenessModel
    fusion: FusionModel
    consistency: ConsistencyParameters
    operating_point: str
    guard: GuardModel | None = None

    @classmethod
    def load(cls, settings: ModelSettings) -> Judges:
        """Find, verify and load the models that ``settings`` names.

        Raises:
            ModelError: one is missing, damaged, of other shape, for other audio, or without thresholds.
        """
        identity = find_model(settings.identity, "identity")
        spoofing = find_model(settings.spoofing, "spoofing")
        liveness = find_model(settings.liveness, "liveness")
        fusion = find_model(settings.fusion, "fusion")
        guard = None if settings.guard is None else find_model(settings.guard, "guard")
        point = settings.operating_point
        for model in filter(None, (identity, spoofing, liveness, guard)):
            _check_input(model.card)
            _calibrated(model.card, 0.0, point)
        fusion.card.threshold(point)
        consistency = consistency_parameters(identity.card)
        for gate in filter(None, (consistency, consistency.alone, consistency.takeover)):
            if point not in gate.thresholds:
                raise ModelError(f"card {identity.card.name!r}: consistency has no threshold for {point!r}")
        threads = settings.threads
        return cls(
            IdentityModel(identity, threads=threads),
            SpoofingModel(spoofing, threads=threads),
            LivenessModel(liveness, threads=threads),
            FusionModel(fusion, threads=threads),
            consistency,
            point,
            None if guard is None else GuardModel(guard, identity.card, threads=threads),
        )

    @property
    def relative_detectors(self) -> dict[str, str]:
        """Role and SHA-256 of each detector that can judge relative to an owner."""
        return {model.card.role: model.card.sha256 for model in (self.spoofing, self.liveness) if model.owner}

    def hear(self, utterance: Utterance, watch: Stopwatch) -> Voice:
        """What the identity network hears in a usable ``utterance``, timed as part of the stage *identity*."""
        with watch.stage("identity"):
            sides = self.consistency
            return hear(self.identity, utterance, least_seconds=sides.least_seconds, hop_seconds=sides.hop_seconds)

    def examine(
        self,
        utterance: Utterance,
        voice: Voice,
        enrolled: NDArray[np.float32] | None,
        watch: Stopwatch,
        baselines: Sequence[Baseline] = (),
    ) -> Judgement:
        """Judge a usable ``utterance``, heard as ``voice``, against the ``enrolled`` embeddings, (n, d) or (d,).

        Where nobody is named (None) its parts are compared with the whole of it, and with each other; whatever needs
        an enrolled speaker is marked as not compared. Spoofing and
        liveness are relative to the owner of ``baselines``, where these are by the very models.
        """
        compared = voice.whole if enrolled is None else enrolled
        with watch.stage("identity"):
            against = self.identity.against(compared)
            identity = replace(self._identity(against(voice.whole, voice.seconds)), compared=enrolled is not None)
        with watch.stage("spoofing"):
            spoofing_windows = self.spoofing.windows(utterance.samples)
            spoofing = self.spoofing_score(self.spoofing.aggregate(spoofing_windows), baselines)
        with watch.stage("liveness"):
            liveness = self.liveness_score(self.liveness.score(utterance.samples), baselines)
        with watch.stage("consistency"):
            reference = direction(compared)
            alone = enrolled is None and self.consistency.alone is not None
            consistency = self.consistency_score(voice, None if alone else reference)
            consistency = replace(consistency, compared=enrolled is not None or alone)
            takeover = None if enrolled is None or identity.passed else self._takeover_score(voice, reference)
        guard, guarded = self._guard_scores(utterance, voice, reference, watch)
        with watch.stage("consistency"):
            shown = tuple(
                WindowScore(
                    segment,
                    self._identity(against(window, seconds)).llr,
                    self.spoofing_score(_covering(spoofing_windows, segment), baselines).llr,
                    copied,
                )
                for segment, window, seconds, copied in zip(
                    voice.segments, voice.windows, voice.window_seconds, guarded, strict=True
                )
            )
        with watch.stage("fusion"):
            voiceid = self.fusion.probability(identity.llr, spoofing.llr, liveness.llr)
        return Judgement(
            Evidence(identity, spoofing, liveness, consistency, shown, guard, takeover),
            voiceid,
            self.fusion.card.threshold(self.operating_point),
        )

    def identity_score(self, enrolled: NDArray[np.float32], embedding: NDArray[np.float32], seconds: float) -> Score:
        """Calibrated score of ``embedding`` (d,) of ``seconds`` against ``enrolled``, (n, d) or (d,), of unit norm."""
        return self._identity(self.identity.score(enrolled, embedding, seconds))

    def _identity(self, raw: float) -> Score:
        return _calibrated(self.identity.card, raw, self.operating_point)

    def spoofing_score(self, raw: float, baselines: Sequence[Baseline] = ()) -> Score:
        """Calibrated spoofing score, relative to the owner of ``baselines`` if there are any by this model."""
        return self._detector(self.spoofing, raw, baselines)

    def liveness_score(self, raw: float, baselines: Sequence[Baseline] = ()) -> Score:
        """Calibrated liveness score, relative to the owner of ``baselines`` if there are any by this model."""
        return self._detector(self.liveness, raw, baselines)

    def _detector(self, model: SpoofingModel | LivenessModel, raw: float, baselines: Sequence[Baseline]) -> Score:
        score = _calibrated(model.card, raw, self.operating_point)
        shift = shift_of(model.card, model.owner, baselines)
        if shift is None or model.owner is None:
            return score
        return Score(raw, score.llr - shift, model.owner.thresholds[self.operating_point].value, shift)

    def consistency_score(self, voice: Voice, reference: NDArray[np.float32] | None) -> Score:
        """Whether one voice speaks throughout, where the enrolled speaker is ``reference`` (d,), if there is one.

        Raises:
            ModelError: there is none, and the identity card does not say what scores mean then.
        """
        gate = self.consistency if reference is not None else self.consistency.alone
        if gate is None:
            raise ModelError(f"card {self.identity.card.name!r}: 'consistency' has no gate without an enrolled speaker")
        return gate.score(consistency_score(voice, reference, self.identity.scores), self.operating_point)

    def _takeover_score(self, voice: Voice, reference: NDArray[np.float32]) -> Score | None:
        """Whether a stranger speaks throughout, or the enrolled speaker in part; None where the card cannot say."""
        gate = self.consistency.takeover
        if gate is None:
            return None
        return gate.score(takeover_score(voice, reference, self.identity.scores), self.operating_point)

    def _guard_scores(
        self, utterance: Utterance, voice: Voice, reference: NDArray[np.float32], watch: Stopwatch
    ) -> tuple[Score | None, Sequence[float | None]]:
        """The guard's word on the whole, and its llr in each window; None where it is off."""
        if self.guard is None:
            return None, [None] * len(voice.windows)
        with watch.stage("guard"):
            whole, windows = falls(reference, voice, self.guard.hear(self.identity, utterance))
            score = _calibrated(self.guard.card, whole, self.operating_point)
            return score, [_calibrated(self.guard.card, raw, self.operating_point).llr for raw in windows]


def _check_input(card: Card) -> None:
    if card.sample_rate != SAMPLE_RATE:
        raise ModelError(f"card {card.name!r} wants {card.sample_rate} Hz; this agent delivers {SAMPLE_RATE} Hz")
    if card.level_dbfs is not None and card.level_dbfs != SPEECH_DBFS:
        raise ModelError(f"card {card.name!r} wants {card.level_dbfs} dBFS; this agent delivers {SPEECH_DBFS} dBFS")


def _calibrated(card: Card, raw: float, operating_point: str) -> Score:
    if card.calibration is None:
        raise ModelError(f"card {card.name!r} has no calibration; the {card.role} role needs one")
    return Score(raw, card.calibration(raw), card.threshold(operating_point))


def _covering(windows: tuple[tuple[Segment, float], ...], segment: Segment) -> float:
    """Raw spoofing score of the window whose centre lies nearest to that of ``segment``."""
    centre = (segment.start + segment.end) / 2
    return min(windows, key=lambda window: abs((window[0].start + window[0].end) / 2 - centre))[1]
