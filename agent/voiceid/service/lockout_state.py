"""The lock-out of one user as a value, and how it changes.

Five failures in a row bring a delay of 30 s before the next try, which doubles with each further failure up to an hour;
at 25 voice is disabled until an admin resets it. An attempt is charged as a failure before it is judged, and what it
was settles the charge: an acceptance clears everything, an inconclusive utterance takes the charge back, ten of
these in a row keep one. A PIN, with eight tries of its own, ends the delay, but neither the count nor the disabling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from voiceid import cbor
from voiceid.errors import VaultError
from voiceid.service.boot_clock import Moment

FREE_FAILURES = 5
"""The failure that brings the first delay."""
DISABLED_AT = 25
FIRST_DELAY, LONGEST_DELAY = 30.0, 3600.0
"""Seconds."""
INCONCLUSIVES_A_FAILURE = 10
PIN_TRIES = 8

_FIELDS: dict[str, type] = {
    "version": int,
    "failures": int,
    "inconclusives": int,
    "delayed": bool,
    "boot": str,
    "since_ms": int,
    "pin": str,
    "pin_failures": int,
}
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LockoutState:
    """What is stored. ``since`` is when the delay began, None where there is none; ``pin`` a PHC string or empty."""

    failures: int = 0
    inconclusives: int = 0
    since: Moment | None = None
    pin: str = ""
    pin_failures: int = 0

    @property
    def disabled(self) -> bool:
        return self.failures >= DISABLED_AT

    @property
    def pin_usable(self) -> bool:
        return bool(self.pin) and self.pin_failures < PIN_TRIES

    def remaining(self, now: Moment) -> float:
        """Seconds of delay left; all of it where the machine was started since, which cannot tell the time passed."""
        if self.since is None:
            return 0.0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** max(0, self.failures - FREE_FAILURES))
        passed = now.seconds_since(self.since)
        return delay if passed is None else max(0.0, delay - passed)

    def refreshed(self, now: Moment) -> LockoutState:
        """The same at ``now``: a delay that is over is gone, one from before the last start begins again."""
        if self.since is None:
            return self
        if self.since.boot != now.boot:
            return replace(self, since=now)
        return self if self.remaining(now) else replace(self, since=None)

    def charged(self, now: Moment) -> LockoutState:
        """One more failure."""
        failures = self.failures + 1
        return replace(self, failures=failures, since=now if failures >= FREE_FAILURES else None)

    def failed(self) -> LockoutState:
        """After :meth:`charged`: it was one."""
        return replace(self, inconclusives=0)

    def accepted(self) -> LockoutState:
        """After :meth:`charged`: it was none, and the count starts anew."""
        return replace(self, failures=0, inconclusives=0, since=None)

    def refunded(self) -> LockoutState:
        """After :meth:`charged`: this user was not meant."""
        return replace(self, failures=max(0, self.failures - 1), since=None)

    def inconclusive(self) -> LockoutState:
        """After :meth:`charged`: nothing could be judged."""
        if self.inconclusives + 1 >= INCONCLUSIVES_A_FAILURE:
            return replace(self, inconclusives=0)
        return replace(self.refunded(), inconclusives=self.inconclusives + 1)

    def reset(self) -> LockoutState:
        """By an admin: no failures of voice or PIN."""
        return LockoutState(pin=self.pin)

    def to_bytes(self) -> bytes:
        """Canonical CBOR."""
        return cbor.encode(
            {
                "version": _VERSION,
                "failures": self.failures,
                "inconclusives": self.inconclusives,
                "delayed": self.since is not None,
                "boot": self.since.boot if self.since else "",
                "since_ms": self.since.milliseconds if self.since else 0,
                "pin": self.pin,
                "pin_failures": self.pin_failures,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> LockoutState:
        """The inverse of :meth:`to_bytes`.

        Raises:
            VaultError: malformed, impossible, or from a newer version.
        """
        table: dict[str, Any] = cbor.decode(data, where="lock-out state", error=VaultError)
        cbor.check_fields(table, _FIELDS, where="lock-out state", error=VaultError)
        counts = [table[key] for key in ("failures", "inconclusives", "since_ms", "pin_failures")]
        if table["version"] != _VERSION or min(counts) < 0:
            raise VaultError("lock-out state: impossible values, or written by a newer voiceid")
        since = Moment(table["boot"], table["since_ms"]) if table["delayed"] else None
        return cls(table["failures"], table["inconclusives"], since, table["pin"], table["pin_failures"])
