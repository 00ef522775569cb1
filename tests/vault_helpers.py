"""Makes cards, templates, vaults and decisions for the tests of storage and credentials."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.envelope import SpeechUnits
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.models.card import Card
from voiceid.relying_party import verify, verify_registration
from voiceid.types import Decision, Outcome, Source
from voiceid.units.privacy import PrivacyProfile

DEVICE_KEY = DeviceKey(bytes(range(32)))
OTHER_KEY = DeviceKey(bytes(range(1, 33)))
IDENTITY = Card(
    schema=1,
    name="identity-test",
    role="identity",
    version="1",
    description="",
    file="identity-test.onnx",
    sha256="ab" * 32,
    inputs={},
    outputs={},
    sample_rate=16_000,
    frontend="waveform",
    level_dbfs=None,
    min_seconds=1.0,
    window_seconds=None,
    calibration=None,
    thresholds={},
    training_data=[],
    metrics={},
    command="",
    licence="MIT",
)


def damage(path: Path) -> None:
    """Change the last byte of the record at ``path``."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def make_template(name="Ada", *, seed=0, count=3, dimension=64, **fields):
    """A template of random unit vectors around one direction."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=dimension) + 0.3 * rng.normal(size=(count, dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    fields = {"model": IDENTITY, "net_speech": 9.25, "owner_uid": 1000, **fields}
    return Template.create(name, vectors, **fields)


def make_matching(template, number=1, **fields):
    """A matching template of ``template``'s enrolment for model ``number``."""
    vectors = make_template(seed=100 + number, count=4, dimension=32).utterances
    card = dataclasses.replace(IDENTITY, name=f"identity-{number}", sha256=f"{number:064x}")
    made = Matching.create(vectors, model=card, enrolment_id=template.enrolment_id, net_speech=8.5)
    return dataclasses.replace(made, **{"created": 1_700_000_000 + number, **fields})


def accepted(name="Ada"):
    """An acceptance of ``name``."""
    return Decision(Outcome.ACCEPTED, ("accepted",), user=name)


RP = "shop.example.org"
NONCE = bytes(range(100, 132))
CODEBOOK_HASH = bytes(range(200, 232))
UNITS = [5, 5, 5, 17, 17, 99, 0, 0, 5, 5, 42] * 20


class Party:
    """One user enrolled and registered at one relying party."""

    def __init__(self, folder, *, name="Ada", device_key=DEVICE_KEY, rp_id=RP):
        self.name, self.rp_id = name, rp_id
        self.vault = Vault.open(folder, device_key, create=True)
        self.template = make_template(name)
        self.vault.save_template(self.template)
        self.authenticator = Authenticator(self.vault, device_key)
        self.registered = self.register()
        self.registration = verify_registration(
            self.registered.response, expected_challenge=NONCE, expected_rp_id=rp_id
        )

    def register(self, **fields):
        fields = {"rp_id": self.rp_id, "challenge": NONCE, "decision": accepted(self.name), **fields}
        return self.authenticator.register(self.name, **fields)

    def authenticate(self, **fields):
        fields = {
            "rp_id": self.rp_id,
            "nonce": NONCE,
            "source": Source.MICROPHONE,
            "decision": accepted(self.name),
            "credential_id": self.registration.credential_id,
            "units": SpeechUnits.share(UNITS, PrivacyProfile(), CODEBOOK_HASH),
            **fields,
        }
        return self.authenticator.authenticate(self.name, **fields)

    def verify(self, data, **fields):
        fields = {"registration": self.registration, "expected_nonce": NONCE, "expected_rp_id": self.rp_id, **fields}
        return verify(data, **fields)
