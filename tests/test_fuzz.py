"""The fuzz targets without their fuzzer: what they begin with is taken, and a finding would be seen."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cli_helpers import need_shipped_models
from tools.fuzz.json_mutation import mutate_json
from tools.fuzz.target import TARGETS, load_target
from tools.fuzz.targets import card, envelope, protocol
from voiceid.errors import EnvelopeError, ModelError
from voiceid.service.methods import METHODS
from voiceid.service.protocol import parse_request


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds_and_what_becomes_of_them(name: str, tmp_path: Path) -> None:
    need_shipped_models()
    target = load_target(name, tmp_path)
    rng = random.Random(1)
    assert target.seeds
    for seed in target.seeds:
        assert len(seed) <= target.max_length, "the fuzzer would cut it"
        target.run(seed)
        damaged = bytearray(seed)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        target.run(bytes(damaged))
    for noise in (b"", b"\0", rng.randbytes(100)):
        target.run(noise)


def test_the_seeds_of_the_protocol_are_requests_of_every_method(tmp_path: Path) -> None:
    assert [parse_request(seed).method for seed in protocol.make(tmp_path).seeds] == list(METHODS)


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [(protocol, "parse_request", ValueError), (card, "read_card", KeyError), (envelope, "verify", TypeError)],
)
def test_an_error_of_another_kind_is_a_finding(
    module: object, name: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_shipped_models()
    target = module.make(tmp_path)

    def fail(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(module, name, fail)
    with pytest.raises(error):
        target.run(target.seeds[0])


@pytest.mark.parametrize(
    ("module", "name", "error"), [(card, "read_card", ModelError), (envelope, "verify", EnvelopeError)]
)
def test_a_refusal_is_none(
    module: object, name: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_shipped_models()
    target = module.make(tmp_path)

    def refuse(*arguments: object, **named: object) -> None:
        raise error("no")

    monkeypatch.setattr(module, name, refuse)
    target.run(target.seeds[0])


def test_mutations_of_json_are_json_and_differ() -> None:
    data = json.dumps({"a": [1, {"b": "c"}], "d": None}).encode()
    mutated = [mutate_json(data, seed, lambda: b"{}") for seed in range(200)]
    assert len(set(mutated)) > 30
    for result in mutated:
        json.loads(result)
    assert mutate_json(b"\xff", 1, lambda: b"fallback") == b"fallback"
    assert mutate_json(data, 7, lambda: b"{}") == mutate_json(data, 7, lambda: b"{}"), "a seed repeats it"
