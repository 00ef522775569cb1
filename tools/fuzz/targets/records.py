"""A vault in which one file was replaced: by any bytes, or by a record that opens but holds any payload."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tools.fuzz.enrolled import KEY, NAME, RP, enrol
from tools.fuzz.target import Target
from voiceid.credentials.keys import Purpose
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.migration import migrate
from voiceid.enrolment.records import FORMAT_VERSION, MAX_RECORD, Record, VaultKeys
from voiceid.enrolment.vault import Vault
from voiceid.errors import VoiceIdError
from voiceid.models.store import find_model
from voiceid.service.lockout import Lockout
from voiceid.settings import ModelSettings
from voiceid.units.privacy import PrivacyProfile

RAW = 0x80
"""Bit of an input's first byte: the file is the input itself. The other bits choose the file, and the version."""


def make(folder: Path) -> Target:
    ada = enrol(folder)
    vault, keys = ada.vault, VaultKeys(KEY.subkey(Purpose.VAULT))
    Lockout(vault).charge(NAME)
    vault.set_privacy_profile(RP, PrivacyProfile())
    template, other = ada.template, replace(find_model(ModelSettings().identity, "identity").card, sha256="0" * 64)
    matching = Matching.create(template.utterances, model=other, enrolment_id=template.enrolment_id, net_speech=9.25)
    vault.save_matching(NAME, matching)
    whole = {path: path.read_bytes() for path in sorted(vault.folder.rglob("*")) if path.is_file()}
    paths = [path for path in whole if path.name not in ("lock", "device.key")]
    opened = {path: keys.unseal(whole[path], _place(vault, path)) for path in paths if path.name != "format"}

    def run(data: bytes) -> None:
        if not data:
            return
        path, payload = paths[(data[0] & 0x0F) % len(paths)], data[1:]
        record = opened.get(path)
        if record is None or data[0] & RAW:
            path.write_bytes(payload)
        else:
            version = FORMAT_VERSION - (data[0] >> 4 & 1)
            changed = Record(version, record.kind, record.user_id, payload)
            path.write_bytes(keys.seal(changed, _place(vault, path)))
            with contextlib.suppress(VoiceIdError):
                migrate(changed, owner_uid=1000)
        try:
            _use(vault)
        finally:
            path.write_bytes(whole[path])

    seeds = [bytes([paths.index(path)]) + record.payload for path, record in opened.items()]
    seeds += [bytes([RAW | number]) + whole[path] for number, path in enumerate(paths)]
    return Target(
        run,
        tuple(seeds),
        min(4096, MAX_RECORD),
        ("version", "user_id", "embedding", "baselines", "since_ms", "profile"),
    )


def _use(vault: Vault) -> None:
    """All that reads a vault; each may refuse, and none may fail in another way."""
    reading: tuple[Callable[[], object], ...] = (
        lambda: Vault.open(vault.folder, KEY),
        vault.list_users,
        vault.problems,
        lambda: vault.load_template(NAME),
        lambda: vault.show_user(NAME).facts(None, {}),
        vault.contents,
        lambda: vault.credentials(NAME),
        lambda: Lockout(vault).report(NAME),
        lambda: vault.privacy_profile(RP),
        vault.privacy_profiles,
    )
    for read in reading:
        with contextlib.suppress(VoiceIdError):
            read()


def _place(vault: Vault, path: Path) -> str:
    return path.relative_to(vault.folder).as_posix()
