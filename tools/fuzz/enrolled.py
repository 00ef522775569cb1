"""A vault with one user of random embeddings and one credential, to begin from what is real."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceid.credentials.authenticator import Authenticator, Registered
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.models.store import find_model
from voiceid.settings import ModelSettings
from voiceid.types import Decision, Outcome

RP, NONCE = "shop.example.org", bytes(range(32))
NAME = "Ada"
KEY_BYTES = bytes(range(32))
KEY = DeviceKey(KEY_BYTES)
ACCEPTED = Decision(Outcome.ACCEPTED, ("accepted",), user=NAME)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What :func:`enrol` made."""

    vault: Vault
    template: Template
    authenticator: Authenticator
    registered: Registered


def enrol(folder: Path) -> Enrolled:
    """Make a vault below ``folder``."""
    vault = Vault.open(folder / "vault", KEY, create=True)
    vectors = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    card = find_model(ModelSettings().identity, "identity").card
    template = Template.create(NAME, vectors, model=card, net_speech=9.25, owner_uid=1000)
    vault.save_template(template)
    authenticator = Authenticator(vault, KEY)
    registered = authenticator.register(NAME, rp_id=RP, challenge=NONCE, decision=ACCEPTED)
    return Enrolled(vault, template, authenticator, registered)
