"""Credential keys over many accepted attempts: always the same for one enrolment, device and relying party."""

from __future__ import annotations

import argparse
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tools.evaluation.audio import UnfitError, crop
from tools.evaluation.deciding import load_pipeline
from tools.evaluation.options import EvaluationError
from tools.output import output
from tools.train.data.corpus import Item, read_index
from voiceid.audio import read_waveform
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import DeviceKey
from voiceid.enrolment.enrol import EnrolmentSession
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.pipeline import AuthenticationRequest, Pipeline
from voiceid.relying_party import verify, verify_registration
from voiceid.settings import Settings
from voiceid.types import Decision, Source, Waveform

USER, RP, OTHER_RP = "owner", "bank.example", "shop.example"
SECONDS = 3.0


def measure_keys(
    pipeline: Pipeline, items: Sequence[Item], folder: Path, *, attempts: int = 100, others: int = 10, seed: int = 0
) -> dict[str, Any]:
    """Enrol the one speaker of ``items`` and authenticate until ``attempts`` were accepted; state goes to ``folder``.

    Every accepted attempt derives the private key anew; its envelope is verified with the key that was registered.
    ``others`` keys each are made for another relying party, salt, device and enrolment.

    Raises:
        EvaluationError: the enrolment does not complete, or the owner is refused too often.
    """
    template, rest = _enrol(pipeline, items)
    device = DeviceKey(secrets.token_bytes(32))
    vault = Vault.open(folder / "device", device, create=True)
    vault.save_template(template)
    authenticator = Authenticator(vault, device)
    rng = np.random.default_rng(seed)
    registration = None
    accepted: Decision | None = None
    tried = same = taken = 0
    while taken < attempts:
        wave = Waveform(_piece(rest[tried % len(rest)], rng), Source.FILE)
        tried += 1
        if tried > 5 * attempts:
            raise EvaluationError(
                f"only {taken} of {tried} attempts of the owner were accepted; no measure of {attempts}"
            )
        if registration is None:
            decision = pipeline.decide(wave, template)
            if decision.accepted:
                accepted = decision
                registration = _register(authenticator, RP, decision)
            continue
        nonce = secrets.token_bytes(32)
        result = pipeline.authenticate(wave, vault, authenticator, AuthenticationRequest(USER, RP, nonce))
        if result.envelope is None:
            continue
        taken += 1
        checked = verify(
            result.envelope.to_bytes(),
            registration=registration,
            expected_nonce=nonce,
            expected_rp_id=RP,
            allow_file=True,
        )
        registration = checked.registration
        same += 1
    assert registration is not None  # noqa: S101 - the loop ends no other way
    assert accepted is not None  # noqa: S101
    keys = [registration.public_key, *_other_keys(template, device, folder, accepted, others)]
    return {
        "attempts": tried,
        "accepted": taken,
        "verified_with_the_registered_key": same,
        "other_keys": len(keys) - 1,
        "all_distinct": len(set(keys)) == len(keys),
    }


def _enrol(pipeline: Pipeline, items: Sequence[Item]) -> tuple[Template, list[Item]]:
    session = EnrolmentSession(pipeline.judges, pipeline.settings)
    for used, item in enumerate(items, start=1):
        session.add(read_waveform(item.path))
        if session.complete and used < len(items):
            return session.finish(USER, owner_uid=0).template, list(items[used:])
    raise EvaluationError(f"{len(items)} utterances do not complete an enrolment and leave one to try")


def _piece(item: Item, rng: np.random.Generator) -> Any:
    samples = read_waveform(item.path).samples
    try:
        return crop(samples, SECONDS, rng)
    except UnfitError:
        return samples


def _register(authenticator: Authenticator, rp_id: str, decision: Decision) -> Any:
    challenge = secrets.token_bytes(32)
    made = authenticator.register(USER, rp_id=rp_id, challenge=challenge, decision=decision)
    return verify_registration(made.response, expected_challenge=challenge, expected_rp_id=rp_id)


def _other_keys(template: Template, device: DeviceKey, folder: Path, decision: Decision, count: int) -> list[bytes]:
    """Public keys for another relying party, salt, device key and enrolment of the same voice."""
    keys = []
    for i in range(count):
        for name, key, enrolment in (
            ("salt", device, template),
            ("device", DeviceKey(secrets.token_bytes(32)), template),
            ("enrolment", device, _again(template)),
        ):
            vault = Vault.open(folder / f"{name}{i}", key, create=True)
            vault.save_template(enrolment)
            authenticator = Authenticator(vault, key)
            keys.append(_register(authenticator, RP, decision).public_key)
            if name == "salt":
                keys.append(_register(authenticator, OTHER_RP, decision).public_key)
    return keys


def _again(template: Template) -> Template:
    """A re-enrolment from the very same recordings."""
    fresh = secrets.token_bytes(len(template.frozen_features) - len(template.embedding))
    return Template(
        **{
            **{name: getattr(template, name) for name in Template.__dataclass_fields__},
            "enrolment_id": secrets.token_bytes(len(template.enrolment_id)),
            "frozen_features": template.frozen_features[: len(template.embedding)] + fresh,
        }
    )


def main() -> None:
    """Measure on the test speaker with the most recordings and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=output, help="JSON")
    parser.add_argument("--attempts", type=int, default=100)
    arguments = parser.parse_args()
    items = [i for i in read_index() if i.split == "test" and i.set == "ls-test-clean" and i.seconds >= SECONDS + 0.5]
    busiest = Counter(item.speaker for item in items).most_common(1)[0][0]
    pipeline = load_pipeline(Settings(), cache=True)
    with TemporaryDirectory() as folder:
        own = [item for item in items if item.speaker == busiest]
        result = measure_keys(pipeline, own, Path(folder), attempts=arguments.attempts)
    arguments.output.write_text(json.dumps({"command": "keys", "speaker": busiest, **result}, indent=1) + "\n", "utf-8")
    print(result)


if __name__ == "__main__":
    main()
