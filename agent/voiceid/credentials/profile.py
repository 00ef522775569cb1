"""Privacy profiles in records and envelopes: there, unlike in settings, nothing may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voiceid import cbor
from voiceid.errors import SettingsError, VoiceIdError
from voiceid.units.privacy import PrivacyProfile

_FIELDS: dict[str, type] = {"codebook": int, "merge_runs": bool, "durations": bool}


def profile_from_table(table: Mapping[str, Any], *, where: str, error: type[VoiceIdError]) -> PrivacyProfile:
    """The profile whose :meth:`PrivacyProfile.to_dict` is ``table``.

    Raises:
        error: keys missing or unknown, or wrong types or values.
    """
    cbor.check_fields(table, _FIELDS, where=where, error=error)
    try:
        return PrivacyProfile.from_dict(table)
    except SettingsError as problem:
        raise error(f"{where}: {problem}") from None
