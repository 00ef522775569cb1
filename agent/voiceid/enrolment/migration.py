"""Reading the vaults of former versions.

Each step lifts the payload of one record by one version. A vault is migrated when it is opened: record by record, each
written atomically, the vault's own version last, so that an interrupted migration goes on at the next opening.

Version 1 (before the first release): templates without an owner. Version 2: ``owner_uid``. Version 3: ``baselines``;
a record without them stays as it is, and its owner is judged by the measure for everybody until the next renewal.
"""

from __future__ import annotations

from collections.abc import Callable

from voiceid import cbor
from voiceid.enrolment.records import FORMAT_VERSION, Record, RecordKind
from voiceid.errors import VaultError


def migrate(record: Record, *, owner_uid: int) -> Record:
    """``record`` in the current version; ``owner_uid`` is the owner of the vault, who becomes that of its templates.

    Raises:
        VaultError: no way leads from its version to this one, or its payload is malformed.
    """
    while record.version < FORMAT_VERSION:
        step = _STEPS.get(record.version)
        if step is None:
            raise VaultError(f"vault record of unknown version {record.version}")
        record = Record(record.version + 1, record.kind, record.user_id, step(record, owner_uid))
    return record


def _from_1(record: Record, owner_uid: int) -> bytes:
    if record.kind is not RecordKind.TEMPLATE:
        return record.payload
    table = cbor.decode(record.payload, where="template record", error=VaultError)
    return cbor.encode({**table, "owner_uid": owner_uid})


def _from_2(record: Record, owner_uid: int) -> bytes:
    return record.payload


_STEPS: dict[int, Callable[[Record, int], bytes]] = {1: _from_1, 2: _from_2}
