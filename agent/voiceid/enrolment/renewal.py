"""After a change of the identity model: a matching template for the new one, for the same enrolment and person.

The frozen features stay, so whoever is taken for the person of the enrolment gets the use of all its credentials. The
model that made a matching template before is asked, where it is still there; without it only a PIN or an admin can say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from voiceid.enrolment.enrol import EnrolmentSession
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import EnrolmentError, ModelError
from voiceid.models.card import Card, read_card
from voiceid.models.store import card_path, find_model, shipped_cards
from voiceid.scoring.identity import IdentityModel
from voiceid.settings import ModelSettings
from voiceid.types import SAMPLE_RATE, Utterance


@dataclass(frozen=True, slots=True)
class FormerModel:
    """A model with the ``template`` that it made, and the least calibrated score that it verifies by."""

    identity: IdentityModel
    template: Template
    threshold: float

    def recognises(self, utterance: Utterance) -> bool:
        """Whether the person of the enrolment speaks in ``utterance``, as verification would have it."""
        speech = utterance.net_speech()
        seconds = len(speech) / SAMPLE_RATE
        raw = self.identity.score(self.template.utterances, self.identity.embed(speech), seconds)
        calibration = self.identity.card.calibration
        return calibration is not None and calibration(raw) >= self.threshold


def find_former(template: Template, models: ModelSettings, reference: str | None = None) -> FormerModel | None:
    """A model that there is a matching template for: the one of card ``reference``, else the one in use, one that
    ``[models] former`` names, or one that ships; None where none is there.

    Raises:
        EnrolmentError: ``reference`` is no model that the template was made with.
        ModelError: it is missing or damaged.
    """
    if reference is not None:
        former = _loaded(template, reference, read_card(card_path(reference)), models)
        if former is None:
            raise EnrolmentError(
                f"{reference}: not a model that {template.name!r} was enrolled or renewed with; it would be "
                f"{template.model_name!r} ({template.model_sha256[:12]})"
            )
        return former
    for candidate, card in _known_cards(models):
        with contextlib.suppress(ModelError):
            if former := _loaded(template, candidate, card, models):
                return former
    return None


def save_renewal(vault: Vault, template: Template, session: EnrolmentSession) -> Template:
    """Store what ``session`` collected as a matching template of the enrolment ``template``; returns it as matched.

    Raises:
        EnrolmentError: not complete, or the user was enrolled anew meanwhile.
    """
    matching = session.renew(template)
    if matching.model_sha256 == template.model_sha256:
        adapted = template.adapted(matching.utterances, matching.baselines)
        vault.save_template(adapted, replace=True)
        return adapted
    vault.save_matching(template.name, matching)
    stored = vault.load_template(template.name).for_model(matching.model_sha256)
    if stored is None:
        raise EnrolmentError(f"{template.name!r} was enrolled anew meanwhile; try again")
    return stored


def _known_cards(models: ModelSettings) -> Iterator[tuple[str, Card]]:
    for reference in (models.identity, *models.former, *map(str, shipped_cards())):
        with contextlib.suppress(ModelError):
            card = read_card(card_path(reference))
            if card.role == "identity":
                yield reference, card


def _loaded(template: Template, reference: str, card: Card, models: ModelSettings) -> FormerModel | None:
    matched = template.for_model(card.sha256)
    if matched is None:
        return None
    model = IdentityModel(find_model(reference, "identity"), threads=models.threads)
    return FormerModel(model, matched, card.threshold(models.operating_point))
