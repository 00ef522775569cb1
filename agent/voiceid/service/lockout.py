"""The lock-out: read before a ceremony, written before anything is scored, settled after; it fails closed."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from voiceid.enrolment.vault import Vault
from voiceid.errors import PinError, UnknownUserError, VaultError
from voiceid.service.boot_clock import BootClock, Clock
from voiceid.service.lockout_state import PIN_TRIES, LockoutState
from voiceid.service.pin import PresentPinError, hash_pin, is_pin
from voiceid.types import Outcome


@dataclass(frozen=True, slots=True)
class LockoutReport:
    """The lock-out of a user for people; ``retry_after`` in seconds, 0 where there is no delay or no end to it."""

    locked: bool
    disabled: bool
    retry_after: int
    pin: bool
    failures: int = 0
    inconclusives: int = 0
    pin_tries: int = 0
    problem: str = ""


class Lockout:
    """The lock-out state of everybody in ``vault``. Safe to call from several threads of the one daemon."""

    def __init__(self, vault: Vault, clock: Clock | None = None) -> None:
        self._vault = vault
        self._clock = clock or BootClock()
        self._lock = threading.Lock()

    def restart(self) -> tuple[str, ...]:
        """At the start of the daemon: delays from before the machine's last start begin again, now.

        Returns a line for each state that cannot be trusted, with the user's pseudonym.
        """
        reports = {user.name: self.report(user.name) for user in self._vault.list_users()}
        problems = {name: report.problem for name, report in reports.items() if report.problem}
        return tuple(f"user {self._vault.pseudonym(name)}: {problem}" for name, problem in problems.items())

    def report(self, name: str) -> LockoutReport:
        """How ``name`` stands; a damaged state is reported as a lock.

        Raises:
            UnknownUserError: not enrolled.
        """
        with self._lock:
            try:
                state = self._refresh(name)
            except UnknownUserError:
                raise
            except VaultError as error:
                return LockoutReport(True, True, 0, False, problem=_problem(error))
        remaining = self._remaining(state)
        return LockoutReport(
            locked=state.disabled or remaining > 0,
            disabled=state.disabled,
            retry_after=0 if state.disabled else math.ceil(remaining),
            pin=state.pin_usable,
            failures=state.failures,
            inconclusives=state.inconclusives,
            pin_tries=PIN_TRIES - state.pin_failures if state.pin else 0,
        )

    def charge(self, name: str) -> bool:
        """Count an attempt of ``name`` as a failure, on disk on return; False where ``name`` is locked.

        Raises:
            VaultError: the state cannot be read or written: nothing may be judged then.
            UnknownUserError: not enrolled.
        """
        with self._lock:
            try:
                state = self._refresh(name)
            except VaultError as error:
                raise VaultError(_problem(error)) from error
            if state.disabled or self._remaining(state) > 0:
                return False
            self._save(name, state.charged(self._clock.now()))
            return True

    def settle(self, name: str, outcome: Outcome) -> None:
        """Say what the charged attempt of ``name`` was.

        Raises:
            VaultError: the state cannot be written; the charge stays.
        """
        change: dict[Outcome, Callable[[LockoutState], LockoutState]] = {
            Outcome.ACCEPTED: LockoutState.accepted,
            Outcome.INCONCLUSIVE: LockoutState.inconclusive,
        }
        self._change(name, change.get(outcome, LockoutState.failed))

    def refund(self, name: str) -> None:
        """Take the charge back: another user was meant.

        Raises:
            VaultError: the state cannot be written; the charge stays.
        """
        self._change(name, LockoutState.refunded)

    def reset(self, name: str) -> None:
        """Forget all failures of ``name``; the PIN stays unless the state was damaged.

        Raises:
            UnknownUserError: not enrolled.
            VaultError: the state cannot be written.
        """
        with self._lock:
            try:
                state = self._load(name).reset()
            except UnknownUserError:
                raise
            except VaultError:
                state = LockoutState()
            self._save(name, state)

    def set_pin(self, name: str, pin: str, *, current: str | None = None, admin: bool = False) -> None:
        """Give ``name`` a PIN; whoever is no admin must know the present one and cannot do it while locked.

        Raises:
            PresentPinError: it must be given.
            PinError: a PIN that cannot be used; locked; or not the present PIN.
            UnknownUserError: not enrolled.
        """
        self._read(name)
        phc = hash_pin(pin)
        self._authorise(name, current, admin=admin)
        self._change(name, lambda state: replace(state, pin=phc, pin_failures=0))

    def clear_pin(self, name: str, *, current: str | None = None, admin: bool = False) -> None:
        """Remove the PIN of ``name``.

        Raises:
            PinError: there is none, or as :meth:`set_pin`.
        """
        if not self._read(name).pin:
            raise PinError(f"{name!r} has no PIN")
        self._authorise(name, current, admin=admin)
        self._change(name, lambda state: replace(state, pin="", pin_failures=0))

    def enter_pin(self, name: str, pin: str) -> bool | None:
        """Whether ``pin`` is right, which ends the delay; None where there is none, or its tries are used up.

        A try is counted, on disk, before it is checked.
        """
        with self._lock:
            state = self._refresh(name)
            if not state.pin_usable:
                return None
            tried = replace(state, pin_failures=state.pin_failures + 1)
            self._save(name, tried)
            if not is_pin(pin, state.pin):
                return False
            self._save(name, replace(tried, pin_failures=0, since=None))
            return True

    def _authorise(self, name: str, current: str | None, *, admin: bool) -> None:
        if admin:
            return
        state = self._read(name)
        if state.disabled or self._remaining(state) > 0:
            raise PinError("not while locked: a new PIN would end the delay")
        if state.pin and current is None:
            raise PresentPinError("the present PIN is needed to change it")
        if state.pin and not self.enter_pin(name, current or ""):
            raise PinError("this is not the present PIN, or its tries are used up")

    def _read(self, name: str) -> LockoutState:
        with self._lock:
            return self._refresh(name)

    def _change(self, name: str, change: Callable[[LockoutState], LockoutState]) -> None:
        with self._lock, contextlib.suppress(UnknownUserError):  # deleted meanwhile
            self._save(name, change(self._load(name)))

    def _refresh(self, name: str) -> LockoutState:
        state = self._load(name)
        fresh = state.refreshed(self._clock.now())
        if fresh != state:
            self._save(name, fresh)
        return fresh

    def _remaining(self, state: LockoutState) -> float:
        return state.remaining(self._clock.now())

    def _load(self, name: str) -> LockoutState:
        data = self._vault.load_lockout(name)
        return LockoutState() if data is None else LockoutState.from_bytes(data)

    def _save(self, name: str, state: LockoutState) -> None:
        self._vault.save_lockout(name, state.to_bytes())


def _problem(error: VaultError) -> str:
    """What to do; without the name, since it is logged."""
    return (
        f"locked, since the lock-out state cannot be trusted ({error}); when the disk is sound, an admin ends it with "
        "'voiceid lockout reset'"
    )
