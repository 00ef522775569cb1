"""Guided enrolment: one utterance at a time, each accepted or refused with a reason."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np
from numpy.typing import NDArray

from voiceid.audio import prepare
from voiceid.enrolment.template import Template, mean_direction
from voiceid.errors import EnrolmentError
from voiceid.scoring.judges import Judges
from voiceid.scoring.policy import describe_faults
from voiceid.settings import Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import Quality, Utterance, Waveform


@unique
class EnrolmentFault(StrEnum):
    """Why an utterance was not taken into the enrolment."""

    SILENT = "silent"
    TOO_SHORT = "too_short"
    TOO_QUIET = "too_quiet"
    CLIPPED = "clipped"
    TOO_NOISY = "too_noisy"
    OTHER_SPEAKER = "other_speaker"
    SOUNDS_SYNTHETIC = "sounds_synthetic"
    SOUNDS_REPLAYED = "sounds_replayed"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class EnrolmentFeedback:
    """What became of one utterance; ``progress`` in [0, 1] is that of the enrolment after it."""

    accepted: bool
    fault: EnrolmentFault | None
    message: str
    quality: Quality
    progress: float


@dataclass(frozen=True, slots=True)
class EnrolmentResult:
    """A finished template, and the names of enrolled users whose voices are too similar to tell apart safely."""

    template: Template
    similar: tuple[str, ...]


class EnrolmentSession:
    """Collects utterances of one person until they suffice for a template."""

    def __init__(self, judges: Judges, settings: Settings, others: Sequence[Template] = ()) -> None:
        """``others`` are the templates of the users already enrolled."""
        self._judges = judges
        self._settings = settings
        self._others = others
        self._embeddings: list[NDArray[np.float32]] = []
        self._taken: set[bytes] = set()
        self._net_speech = 0.0

    @property
    def progress(self) -> float:
        """Share of the needed utterances and net speech that is collected, in [0, 1]."""
        need = self._settings.enrolment
        utterances = len(self._embeddings) / need.min_utterances
        return min(1.0, utterances, self._net_speech / need.min_net_speech)

    @property
    def complete(self) -> bool:
        return self.progress >= 1.0

    def add(self, waveform: Waveform) -> EnrolmentFeedback:
        """Judge ``waveform`` and, if it is good and of the same person as before, take it in."""
        utterance = prepare(waveform, self._settings.quality)
        if utterance.quality.faults:
            fault = EnrolmentFault(utterance.quality.faults[0].value)
            return self._refuse(fault, "; ".join(describe_faults(utterance.quality)), utterance)
        digest = hashlib.sha256(utterance.samples.tobytes()).digest()
        if digest in self._taken:
            return self._refuse(EnrolmentFault.REPEATED, "the same recording as before; say something else", utterance)
        spoofing = self._judges.spoofing_score(self._judges.spoofing.score(utterance.samples))
        if not spoofing.passed:
            return self._refuse(EnrolmentFault.SOUNDS_SYNTHETIC, "sounds synthetic", utterance)
        if not self._judges.liveness_score(self._judges.liveness.score(utterance.samples)).passed:
            return self._refuse(EnrolmentFault.SOUNDS_REPLAYED, "sounds like a loudspeaker", utterance)
        voice = self._judges.hear(utterance, Stopwatch())
        if not self._judges.consistency_score(voice, voice.whole).passed:
            return self._refuse(EnrolmentFault.OTHER_SPEAKER, "more than one person speaks", utterance)
        if self._embeddings and not self._same_speaker(voice.whole):
            message = "another speaker than before; if the first recordings were of someone else, start again"
            return self._refuse(EnrolmentFault.OTHER_SPEAKER, message, utterance)
        self._embeddings.append(voice.whole)
        self._taken.add(digest)
        self._net_speech += utterance.quality.net_speech
        return EnrolmentFeedback(True, None, "taken", utterance.quality, self.progress)

    def finish(self, name: str, *, owner_uid: int, user_id: bytes | None = None) -> EnrolmentResult:
        """Make the template for user ``name``, owned by the operating system's user ``owner_uid``.

        Pass the ``user_id`` of the former template when a user enrols again.

        Raises:
            EnrolmentError: not complete, or ``name`` cannot be used.
        """
        need = self._settings.enrolment
        if not self.complete:
            raise EnrolmentError(
                f"enrolment of {name!r} is not complete: {len(self._embeddings)} of {need.min_utterances} utterances, "
                f"{self._net_speech:.1f} of {need.min_net_speech:.1f} s of speech; add more recordings"
            )
        template = Template.create(
            name,
            np.stack(self._embeddings),
            model=self._judges.identity.card,
            net_speech=self._net_speech,
            owner_uid=owner_uid,
            user_id=user_id,
        )
        similar = tuple(
            other.name
            for other in self._others
            if other.name != template.name
            and other.embedding.shape == template.embedding.shape
            and self._judges.identity_score(other.embedding, template.embedding).llr > need.similar_user_llr
        )
        return EnrolmentResult(template, similar)

    def _same_speaker(self, embedding: NDArray[np.float32]) -> bool:
        llr = self._judges.identity_score(mean_direction(np.stack(self._embeddings)), embedding).llr
        return llr >= self._settings.enrolment.same_speaker_llr

    def _refuse(self, fault: EnrolmentFault, message: str, utterance: Utterance) -> EnrolmentFeedback:
        return EnrolmentFeedback(False, fault, message, utterance.quality, self.progress)
