"""Makes cards, templates, vaults and decisions for the tests of storage and credentials."""

from __future__ import annotations

import numpy as np

from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.template import Template
from voiceid.models.card import Card
from voiceid.types import Decision, Outcome

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


def make_template(name="Ada", *, seed=0, count=3, dimension=64, **fields):
    """A template of random unit vectors around one direction."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=dimension) + 0.3 * rng.normal(size=(count, dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    fields = {"model": IDENTITY, "net_speech": 9.25, "owner_uid": 1000, **fields}
    return Template.create(name, vectors, **fields)


def accepted(name="Ada"):
    """An acceptance of ``name``."""
    return Decision(Outcome.ACCEPTED, ("accepted",), user=name)
