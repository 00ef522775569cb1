"""The last step of a change of the device key: the copy of the vault that was made for the new key takes its place.

The copy stays until it is in place or another change begins. If the key was never replaced, nobody can open it.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from voiceid.enrolment import files
from voiceid.enrolment.record_folder import FORMAT
from voiceid.enrolment.records import MAX_RECORD, parse_vault_header

COPY = ".rotation"
"""Folder in the vault; in it another vault."""

_PARTS = ("users", "relying-parties")


def put_in_place(folder: Path, check: bytes) -> bool:
    """Let the copy in the vault ``folder`` take its place if it was made for the key of ``check``; False if not.

    The caller holds the exclusive lock. After an interruption another call goes on where the last one stopped.

    Raises:
        VaultError: damaged, read-only or full.
    """
    copy = folder / COPY
    header = files.read_file(copy / FORMAT, MAX_RECORD)
    if header is None or not hmac.compare_digest(parse_vault_header(header, str(copy / FORMAT))[1], check):
        return False
    with files.explain(folder):
        for part in _PARTS:
            if (copy / part).exists():
                if (folder / part).exists():
                    (folder / part).rename(folder / f"{files.TEMPORARY_PREFIX}{secrets.token_hex(8)}")
                (copy / part).rename(folder / part)
        files.sync_folder(folder)
        (copy / FORMAT).replace(folder / FORMAT)
        files.sync_folder(folder)
    clear_remains(folder)
    files.remove_leftovers(folder)
    return True


def clear_remains(folder: Path) -> None:
    """Remove what is left of a copy that is in place already. The caller holds the exclusive lock."""
    copy = folder / COPY
    if files.exists(copy) and not files.exists(copy / FORMAT):
        files.shred_folder(copy)
