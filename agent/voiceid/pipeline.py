"""The one pipeline: waveform -> utterance -> evidence -> decision -> (accepted only) units -> signed envelope.

Service, command line, benchmark, demo and tests all call this module; only it knows the order of the stages.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceid.audio import prepare
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.envelope import Envelope, SpeechUnits
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import EnrolmentError, UnknownUserError
from voiceid.models.store import find_model
from voiceid.scoring.judges import Judges
from voiceid.scoring.policy import decide, inconclusive, not_enrolled
from voiceid.scoring.voice import Voice
from voiceid.settings import Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import Decision, Outcome, Utterance, Waveform
from voiceid.units.packing import pack
from voiceid.units.privacy import PrivacyProfile
from voiceid.units.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Identification:
    """Who speaks, among the enrolled: ``name`` is None for *unknown*.

    ``decision`` is that on the best candidate; ``candidates`` are (name, identity llr), best first. ``ambiguous`` are
    the names of two or more who would each have passed, but whose scores are too close to tell which of them it is.
    """

    name: str | None
    decision: Decision
    candidates: tuple[tuple[str, float], ...]
    ambiguous: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """What examining a waveform came to, before anything follows from it.

    ``utterance`` is None where none was prepared; ``units`` are there where they were made in advance.
    """

    decision: Decision
    utterance: Utterance | None
    units: SpeechUnits | None = None


@dataclass(frozen=True, slots=True)
class AuthenticationRequest:
    """What a relying party asks for: ``nonce`` is its fresh challenge, ``credential_id`` None for the user's newest."""

    user: str
    rp_id: str
    nonce: bytes
    credential_id: bytes | None = None
    purpose: str | None = None


@dataclass(frozen=True, slots=True)
class Authentication:
    """The decision on a request and, only if it accepted, the signed envelope."""

    decision: Decision
    envelope: Envelope | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Loaded models and settings; :meth:`load` makes one."""

    settings: Settings
    judges: Judges
    tokenizer: Tokenizer

    @classmethod
    def load(cls, settings: Settings) -> Pipeline:
        """Load and verify every model that ``settings`` names.

        Raises:
            ModelError: one is missing, damaged or does not fit.
        """
        units = find_model(settings.models.units, "units")
        return cls(settings, Judges.load(settings.models), Tokenizer(units, threads=settings.models.threads))

    def prepare(self, waveform: Waveform) -> Utterance:
        """Detect speech, measure quality, trim and level ``waveform``."""
        return prepare(waveform, self.settings.quality)

    def decide(self, waveform: Waveform, template: Template | None, *, name: str = "") -> Decision:
        """Decide whether ``waveform`` comes from the live person of ``template`` (``name`` where it is None).

        Raises:
            EnrolmentError: the template belongs to another identity model.
        """
        return self.examine(waveform, template, name=name).decision

    def examine(
        self, waveform: Waveform, template: Template | None, *, name: str = "", watch: Stopwatch | None = None
    ) -> Examined:
        """As :meth:`decide`, with the utterance that was judged."""
        if template is None:
            return Examined(not_enrolled(name), None)
        template = self.check_template(template)
        watch = watch or Stopwatch()
        with watch.stage("prepare"):
            utterance = self.prepare(waveform)
        if not utterance.quality.usable:
            decision = dataclasses.replace(inconclusive(utterance.quality), timings=watch.timings())
            return Examined(decision, utterance)
        voice = self.judges.hear(utterance, watch)
        return Examined(self._judge(utterance, voice, template, watch), utterance)

    def _judge(self, utterance: Utterance, voice: Voice, template: Template, watch: Stopwatch) -> Decision:
        """Decide on a usable ``utterance``, heard as ``voice``."""
        judgement = self.judges.examine(utterance, voice, template.utterances, watch, template.known_baselines)
        decision = decide(utterance.quality, judgement.evidence, judgement.voiceid, judgement.voiceid_threshold)
        return dataclasses.replace(decision, timings=watch.timings(), user=template.name)

    def authenticate(
        self,
        waveform: Waveform,
        vault: Vault,
        authenticator: Authenticator,
        request: AuthenticationRequest,
        *,
        known: Callable[[Template], Examined | None] = lambda template: None,
    ) -> Authentication:
        """Decide on ``waveform`` for the user of ``request`` and, only on acceptance, sign an envelope of units.

        ``known`` tells what this pipeline found of ``waveform`` and a template in advance, if it did.

        Raises:
            CredentialError, EnvelopeError, VaultError, ClockError: the request cannot be granted; checked before the
                audio is looked at.
            EnrolmentError: the template belongs to another identity model.
        """
        try:
            template = vault.load_template(request.user)
        except UnknownUserError:
            return Authentication(not_enrolled(request.user), None)
        credential = authenticator.check_request(
            request.user,
            rp_id=request.rp_id,
            nonce=request.nonce,
            credential_id=request.credential_id,
            purpose=request.purpose,
        )
        examined = known(template) or self.examine(waveform, template)
        decision, utterance = examined.decision, examined.utterance
        if not decision.accepted or utterance is None:
            return Authentication(decision, None)
        request = dataclasses.replace(request, credential_id=credential.credential_id)
        watch = Stopwatch()
        envelope = self.sign(utterance, decision, vault, authenticator, request, watch=watch, units=examined.units)
        timings = dict(decision.timings)
        for stage, milliseconds in watch.timings().items():
            timings[stage] = timings.get(stage, 0.0) + milliseconds
        return Authentication(dataclasses.replace(decision, timings=timings), envelope)

    def sign(
        self,
        utterance: Utterance,
        decision: Decision,
        vault: Vault,
        authenticator: Authenticator,
        request: AuthenticationRequest,
        *,
        watch: Stopwatch | None = None,
        units: SpeechUnits | None = None,
    ) -> Envelope:
        """The envelope of an ``utterance`` that ``decision`` accepted: its units, as far as the profile shares them.

        ``units`` made in advance are used if they are of that profile.

        Raises:
            CredentialError: not accepted for the user of ``request``, or that user has no such credential.
        """
        watch = watch or Stopwatch()
        with watch.stage("units"):
            profile = vault.privacy_profile(request.rp_id)
            if units is None or units.profile != profile:
                units = self.speech_units(utterance, profile)
        with watch.stage("sign"):
            return authenticator.authenticate(
                request.user,
                rp_id=request.rp_id,
                nonce=request.nonce,
                source=utterance.source,
                decision=decision,
                credential_id=request.credential_id,
                units=units,
                purpose=request.purpose,
            )

    def identify(
        self, waveform: Waveform, templates: Sequence[Template], *, watch: Stopwatch | None = None
    ) -> Identification:
        """Find the speaker among ``templates`` (open set); those of another identity model are left out.

        With n users enrolled a stranger has n chances, so the identity score must pass its threshold by ln n. Nobody
        is named where another user passes that too and scores about as high: see ``settings.identification``.

        Raises:
            EnrolmentError: all templates belong to other identity models.
        """
        if not templates:
            nobody = Decision(Outcome.NOT_ENROLLED, ("nobody is enrolled; run 'voiceid enroll'",))
            return Identification(None, nobody, ())
        sha256 = self.judges.identity.card.sha256
        fitting = [fit for template in templates if (fit := template.for_model(sha256)) is not None]
        templates = fitting or [self.check_template(templates[0])]
        watch = watch or Stopwatch()
        with watch.stage("prepare"):
            utterance = self.prepare(waveform)
        if not utterance.quality.usable:
            return Identification(None, inconclusive(utterance.quality), ())
        voice = self.judges.hear(utterance, watch)
        scored = sorted(
            ((self.judges.identity_score(t.utterances, voice.whole, voice.seconds).llr, t) for t in templates),
            key=lambda pair: -pair[0],
        )
        llr, best = scored[0]
        decision = self._judge(utterance, voice, best, watch)
        ambiguous: tuple[str, ...] = ()
        if decision.accepted and decision.evidence is not None:
            needed = decision.evidence.identity.threshold + math.log(len(templates))
            if llr < needed:
                reason = (
                    f"not clearly one of {len(templates)} enrolled users: identity {llr:+.2f} is below {needed:+.2f}"
                )
                decision = dataclasses.replace(decision, outcome=Outcome.REJECTED, reasons=(reason,))
            least = max(needed, llr - self.settings.identification.least_lead)
            close = [(template.name, score) for score, template in scored if score > least or score == llr]
            if decision.accepted and len(close) > 1:
                ambiguous = tuple(name for name, _ in close)
                shown = ", ".join(f"{name!r} {score:+.2f}" for name, score in close)
                reason = f"cannot tell {len(close)} enrolled users apart: identity {shown}"
                decision = dataclasses.replace(decision, outcome=Outcome.REJECTED, reasons=(reason,))
        candidates = tuple((template.name, score) for score, template in scored)
        return Identification(best.name if decision.accepted else None, decision, candidates, ambiguous)

    def units(self, utterance: Utterance, codebook: int) -> NDArray[np.int16]:
        """Discrete units of ``utterance`` at 100 Hz: int16 (t,), values below ``codebook`` (50, 100 or 200)."""
        return self.tokenizer.encode(utterance.samples, codebook=codebook)

    def speech_units(self, utterance: Utterance, profile: PrivacyProfile) -> SpeechUnits:
        """What ``profile`` lets a relying party have of ``utterance``: its units, packed."""
        sequence = profile.apply(self.units(utterance, profile.codebook).tolist())
        return SpeechUnits(pack(sequence), self.tokenizer.codebook_hash(profile.codebook), profile)

    def check_template(self, template: Template) -> Template:
        """``template`` as matched by the identity model that is loaded.

        Raises:
            EnrolmentError: there is no matching template for that model.
        """
        card = self.judges.identity.card
        fitting = template.for_model(card.sha256)
        if fitting is None:
            raise EnrolmentError(
                f"the template of {template.name!r} belongs to identity model {template.model_name!r} "
                f"({template.model_sha256[:12]}), but {card.name!r} {card.version} ({card.sha256[:12]}) is in use; run "
                f"'voiceid users renew {template.name}', which keeps all credentials, or choose the former model in "
                "[models]"
            )
        return fitting
