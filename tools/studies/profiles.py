"""Privacy profiles as studies name them: by codebook, and by what they share beyond merged runs."""

from __future__ import annotations

from voiceid.units.codebook import CODEBOOKS
from voiceid.units.privacy import PrivacyProfile

PROFILES = {
    f"units-{codebook}{name}": PrivacyProfile(codebook, **changes)
    for codebook in CODEBOOKS
    for name, changes in (("", {}), ("-durations", {"durations": True}), ("-frames", {"merge_runs": False}))
}
