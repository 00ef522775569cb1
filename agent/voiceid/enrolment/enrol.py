"""Guided enrolment: one utterance at a time, each accepted or refused with a reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np
from numpy.typing import NDArray

from voiceid.audio import prepare
from voiceid.enrolment.matching import Matching, mean_direction
from voiceid.enrolment.template import Template
from voiceid.errors import EnrolmentError
from voiceid.scoring.judges import Judges
from voiceid.scoring.owner import Baseline, first_of_each
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


@dataclass(frozen=True, slots=True)
class _Taken:
    """An utterance taken in: the how manieth that was offered, a digest of its sound, its ``embedding`` (d,) of so many
    ``seconds``, and the raw scores of spoofing and liveness.
    """

    number: int
    digest: bytes
    embedding: NDArray[np.float32]
    seconds: float
    detected: tuple[float, float]


class EnrolmentSession:
    """Collects utterances of one person until they suffice for a template."""

    def __init__(
        self,
        judges: Judges,
        settings: Settings,
        others: Sequence[Template] = (),
        *,
        recognised: Callable[[Utterance], bool] | None = None,
    ) -> None:
        """``others`` are the templates of the users already enrolled; ``recognised`` tells whether the right person
        speaks, where only one will do.
        """
        self._judges = judges
        self._settings = settings
        self._others = others
        self._recognised = recognised
        self._offered = 0
        self._taken: list[_Taken] = []

    @property
    def progress(self) -> float:
        """Share of the needed utterances and net speech that is collected, in [0, 1]."""
        need = self._settings.enrolment
        utterances = len(self._taken) / need.min_utterances
        return min(1.0, utterances, self.net_speech / need.min_net_speech)

    @property
    def net_speech(self) -> float:
        """Seconds of speech taken in."""
        return sum((one.seconds for one in self._taken), 0.0)

    @property
    def complete(self) -> bool:
        return self.progress >= 1.0

    def add(self, waveform: Waveform) -> EnrolmentFeedback:
        """Judge ``waveform`` and, if it is good and of the same person as before, take it in."""
        self._offered += 1
        utterance = prepare(waveform, self._settings.quality)
        if utterance.quality.faults:
            fault = EnrolmentFault(utterance.quality.faults[0].value)
            return self._refuse(fault, "; ".join(describe_faults(utterance.quality)), utterance)
        digest = hashlib.sha256(utterance.samples.tobytes()).digest()
        if any(one.digest == digest for one in self._taken):
            return self._refuse(EnrolmentFault.REPEATED, "the same recording as before; say something else", utterance)
        spoofing = self._judges.spoofing_score(self._judges.spoofing.score(utterance.samples))
        if not spoofing.passed:
            return self._refuse(EnrolmentFault.SOUNDS_SYNTHETIC, "sounds synthetic", utterance)
        liveness = self._judges.liveness_score(self._judges.liveness.score(utterance.samples))
        if not liveness.passed:
            return self._refuse(EnrolmentFault.SOUNDS_REPLAYED, "sounds like a loudspeaker", utterance)
        voice = self._judges.hear(utterance, Stopwatch())
        if not self._judges.consistency_score(voice, voice.whole).passed:
            return self._refuse(EnrolmentFault.OTHER_SPEAKER, "more than one person speaks", utterance)
        taken = _Taken(self._offered, digest, voice.whole, voice.seconds, (spoofing.raw, liveness.raw))
        if self._taken and not self._same_speaker(self._taken, taken):
            message = "another speaker than before; if the first recordings were of someone else, start again"
            return self._refuse(EnrolmentFault.OTHER_SPEAKER, message, utterance)
        if self._recognised is not None and not self._recognised(utterance):
            message = "not recognised as the person who is enrolled; speak as usual, close to the microphone"
            return self._refuse(EnrolmentFault.OTHER_SPEAKER, message, utterance)
        self._taken.append(taken)
        return EnrolmentFeedback(True, None, "taken", utterance.quality, self.progress)

    def finish(self, name: str, *, owner_uid: int, user_id: bytes | None = None) -> EnrolmentResult:
        """Make the template for user ``name``, owned by the operating system's user ``owner_uid``.

        Pass the ``user_id`` of the former template when a user enrols again.

        Raises:
            EnrolmentError: not complete, not all of one person, or ``name`` cannot be used.
        """
        need = self._settings.enrolment
        self._check(name)
        template = Template.create(
            name,
            _embeddings(self._taken),
            model=self._judges.identity.card,
            net_speech=self.net_speech,
            owner_uid=owner_uid,
            user_id=user_id,
            baselines=self._baselines(),
        )
        comparable = [
            other
            for former in self._others
            if former.name != template.name and (other := former.for_model(template.model_sha256)) is not None
        ]
        similar = tuple(
            other.name
            for other in comparable
            if self._judges.identity_score(other.embedding, template.embedding, self.net_speech).llr
            > need.similar_user_llr
        )
        return EnrolmentResult(template, similar)

    def renew(self, template: Template) -> Matching:
        """A matching template of the enrolment ``template`` for the identity model of this session.

        Raises:
            EnrolmentError: not complete, or not all of one person.
        """
        self._check(template.name)
        return Matching.create(
            _embeddings(self._taken),
            model=self._judges.identity.card,
            enrolment_id=template.enrolment_id,
            net_speech=self.net_speech,
            baselines=self._baselines(),
        )

    def _baselines(self) -> tuple[Baseline, ...]:
        """What the detectors score of the utterances taken in."""
        cards = (self._judges.spoofing.card, self._judges.liveness.card)
        means = np.mean([one.detected for one in self._taken], axis=0).tolist()
        found = (Baseline.of(card, mean, len(self._taken)) for card, mean in zip(cards, means, strict=True))
        return first_of_each(found)

    def _check(self, name: str) -> None:
        need = self._settings.enrolment
        if not self.complete:
            raise EnrolmentError(
                f"enrolment of {name!r} is not complete: {len(self._taken)} of {need.min_utterances} utterances, "
                f"{self.net_speech:.1f} of {need.min_net_speech:.1f} s of speech; add more recordings"
            )
        if strange := self._strange():
            raise EnrolmentError(
                f"enrolment of {name!r}: of {self._offered} utterances no. {', '.join(map(str, strange))} does not fit "
                "the voice of all the others together; start again with recordings of one person"
            )

    def _strange(self) -> list[int]:
        """Numbers, from 1 as they were offered, of what does not fit the others: the first was compared with little."""
        taken = self._taken
        return [
            one.number
            for at, one in enumerate(taken)
            if len(taken) > 1 and not self._same_speaker(taken[:at] + taken[at + 1 :], one)
        ]

    def _same_speaker(self, others: list[_Taken], one: _Taken) -> bool:
        score = self._judges.identity_score(mean_direction(_embeddings(others)), one.embedding, one.seconds)
        return score.llr >= self._settings.enrolment.same_speaker_llr

    def _refuse(self, fault: EnrolmentFault, message: str, utterance: Utterance) -> EnrolmentFeedback:
        return EnrolmentFeedback(False, fault, message, utterance.quality, self.progress)


def _embeddings(taken: list[_Taken]) -> NDArray[np.float32]:
    """Those of ``taken``, (n, d)."""
    return np.stack([one.embedding for one in taken])
