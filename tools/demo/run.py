"""The demo's course: enrol, register, try every case, check every envelope."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.demo.cases import Case, enrolment_clips
from tools.demo.service import PURPOSE, RP_ID, Receipt, Service
from tools.demo.voices import Clip, Voice
from voiceid.credentials.authenticator import Authenticator
from voiceid.enrolment.enrol import EnrolmentSession
from voiceid.enrolment.vault import Vault
from voiceid.pipeline import AuthenticationRequest, Pipeline
from voiceid.types import Decision, Source, Utterance, Waveform

CODEBOOK = 100
Say = Callable[[str], None]


class DemoError(Exception):
    """The owner could not be enrolled or registered, so that nothing can be shown."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One recording of a case and what came of it; ``units`` (t,) are empty where the speech was unfit."""

    name: str
    """The case's slug, numbered where it has several recordings."""
    case: Case
    clip: Clip
    decision: Decision
    utterance: Utterance
    units: NDArray[np.int16]
    receipt: Receipt | None

    @property
    def right(self) -> bool:
        """The outcome is the case's, and there is an envelope exactly where it was accepted."""
        return self.decision.outcome is self.case.expected and self.decision.accepted == (self.receipt is not None)


@dataclass(frozen=True, slots=True)
class Stage:
    """What the trials share: the agent's side and the service's side."""

    pipeline: Pipeline
    vault: Vault
    authenticator: Authenticator
    service: Service
    user: str


def enrol(stage: Stage, owner: Voice, say: Say) -> None:
    """Enrol ``owner`` from the first commands and register a credential with the next one that is accepted.

    Raises:
        DemoError: too few of the recordings are taken.
    """
    session = EnrolmentSession(stage.pipeline.judges, stage.pipeline.settings)
    clips = iter(enrolment_clips(owner))
    for clip in clips:
        feedback = session.add(waveform(clip))
        say(f"{feedback.progress:4.0%}  {clip.name}: {feedback.message}")
        if session.complete:
            break
    else:
        raise DemoError(f"{owner.name}'s recordings do not suffice to enrol; offer others with --samples")
    stage.vault.save_template(session.finish(stage.user, owner_uid=os.getuid()).template)
    template = stage.vault.load_template(stage.user)
    for clip in clips:
        decision = stage.pipeline.decide(waveform(clip), template)
        say(f"register with {RP_ID}, {clip.name}: {decision.outcome}")
        if decision.accepted:
            challenge = stage.service.nonce()
            made = stage.authenticator.register(stage.user, rp_id=RP_ID, challenge=challenge, decision=decision)
            stage.service.register(made.response, challenge)
            return
    raise DemoError(f"{owner.name} was not accepted in any of the recordings kept for registration")


def trials(stage: Stage, cases: tuple[Case, ...]) -> Iterator[Trial]:
    """Put every recording through the pipeline; accepted ones go to the service."""
    for case in cases:
        for number, clip in enumerate(case.recordings, 1):
            name = case.slug if len(case.recordings) == 1 else f"{case.slug}-{number}"
            nonce = stage.service.nonce()
            request = AuthenticationRequest(stage.user, RP_ID, nonce, purpose=PURPOSE)
            result = stage.pipeline.authenticate(waveform(clip), stage.vault, stage.authenticator, request)
            receipt = stage.service.receive(result.envelope.to_bytes(), nonce) if result.envelope is not None else None
            utterance = stage.pipeline.prepare(waveform(clip))
            usable = utterance.quality.usable
            units = stage.pipeline.units(utterance, CODEBOOK) if usable else np.zeros(0, np.int16)
            yield Trial(name, case, clip, result.decision, utterance, units, receipt)


def waveform(clip: Clip) -> Waveform:
    """A recording as the pipeline takes it: the source says that it comes from a file."""
    return Waveform(clip.samples, Source.FILE)
