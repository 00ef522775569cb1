"""Privacy profiles: what of the units a relying party is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voiceid.errors import SettingsError
from voiceid.tables import from_table
from voiceid.units.codebook import CODEBOOKS
from voiceid.units.packing import UnitSequence, merge_runs


@dataclass(frozen=True, slots=True)
class PrivacyProfile:
    """How much of the units is shared. Fewer units and no durations say less about who speaks and how.

    Raises:
        SettingsError: unknown codebook, or durations of runs that are not merged.
    """

    codebook: int = 100
    """Number of units: 50, 100 or 200."""
    merge_runs: bool = True
    """Replace each run of equal units by one."""
    durations: bool = False
    """Share how long each run was: rhythm is a trait of the speaker."""

    def __post_init__(self) -> None:
        if self.codebook not in CODEBOOKS:
            raise SettingsError(
                f"privacy profile: codebook {self.codebook!r}; use one of {', '.join(map(str, CODEBOOKS))}"
            )
        if self.durations and not self.merge_runs:
            raise SettingsError("privacy profile: durations need merge_runs; unmerged units show every frame already")

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> PrivacyProfile:
        """The profile stored as ``table``; absent keys take their defaults.

        Raises:
            SettingsError: unknown keys, wrong types or values.
        """
        return from_table(cls, dict(table), where="privacy profile", error=SettingsError)

    def to_dict(self) -> dict[str, int | bool]:
        """Plain values for storage and for the envelope."""
        return asdict(self)

    def apply(self, units: Sequence[int]) -> UnitSequence:
        """What this profile shares of ``units`` (one id a frame, from this profile's codebook)."""
        if not self.merge_runs:
            return UnitSequence(self.codebook, tuple(int(unit) for unit in units), merged=False)
        runs, lengths = merge_runs(units)
        return UnitSequence(self.codebook, runs, merged=True, durations=lengths if self.durations else None)
