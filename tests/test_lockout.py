"""The lock-out: counting, delays, disabling, PIN, clocks, damage and crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vault_helpers import DEVICE_KEY, damage, make_template
from voiceid.enrolment.vault import Vault
from voiceid.errors import PinError, UnknownUserError, VaultError
from voiceid.service.boot_clock import BootClock, Moment
from voiceid.service.lockout import Lockout
from voiceid.service.lockout_state import DISABLED_AT, PIN_TRIES, LockoutState
from voiceid.service.pin import PresentPinError
from voiceid.types import Outcome

NAME = "Ada"
FAILURES = (Outcome.REJECTED, Outcome.SPOOF, Outcome.REPLAY, Outcome.INCONSISTENT)


class FakeClock:
    """Goes when told to; :meth:`reboot` starts the machine again."""

    def __init__(self):
        self.boot, self.milliseconds = "first", 50_000

    def now(self):
        return Moment(self.boot, self.milliseconds)

    def pass_(self, seconds):
        self.milliseconds += round(seconds * 1000)

    def reboot(self):
        self.boot, self.milliseconds = self.boot + "+", 1000


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def vault(tmp_path):
    vault = Vault.open(tmp_path / "vault", DEVICE_KEY, create=True)
    vault.save_template(make_template(NAME))
    return vault


@pytest.fixture
def lockout(vault, clock):
    return Lockout(vault, clock)


def attempt(lockout, outcome, name=NAME):
    """One ceremony; False where it was locked."""
    if not lockout.charge(name):
        return False
    lockout.settle(name, outcome)
    return True


def fail(lockout, clock, times):
    """Fail ``times`` times, waiting out every delay."""
    for _ in range(times):
        clock.pass_(lockout.report(NAME).retry_after)
        assert attempt(lockout, Outcome.REJECTED)


def lockout_file(vault):
    (path,) = vault.folder.rglob("lockout")
    return path


@pytest.mark.parametrize("outcome", FAILURES)
def test_every_kind_of_failure_counts_and_the_fifth_brings_thirty_seconds(lockout, clock, outcome):
    for number in range(1, 6):
        assert attempt(lockout, outcome)
        assert lockout.report(NAME).failures == number
    report = lockout.report(NAME)
    assert report.locked and not report.disabled and report.retry_after == 30
    assert not attempt(lockout, Outcome.ACCEPTED)
    clock.pass_(29.9)
    assert not attempt(lockout, Outcome.ACCEPTED)
    clock.pass_(0.1)
    assert attempt(lockout, Outcome.ACCEPTED)


def test_the_delay_doubles_up_to_an_hour(lockout, clock):
    fail(lockout, clock, 5)
    delays = [lockout.report(NAME).retry_after]
    for _ in range(9):
        fail(lockout, clock, 1)
        delays.append(lockout.report(NAME).retry_after)
    assert delays == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_an_acceptance_clears_everything(lockout, clock):
    fail(lockout, clock, 7)
    clock.pass_(3600)
    assert attempt(lockout, Outcome.ACCEPTED)
    report = lockout.report(NAME)
    assert (report.failures, report.inconclusives, report.locked) == (0, 0, False)
    fail(lockout, clock, 4)
    assert not lockout.report(NAME).locked


def test_at_25_the_voice_is_disabled_until_an_admin_resets_it(lockout, clock):
    fail(lockout, clock, DISABLED_AT)
    report = lockout.report(NAME)
    assert report.locked and report.disabled and report.retry_after == 0
    clock.pass_(10 * 24 * 3600)
    clock.reboot()
    assert not attempt(lockout, Outcome.ACCEPTED)
    lockout.reset(NAME)
    assert attempt(lockout, Outcome.ACCEPTED)


def test_ten_inconclusive_utterances_in_a_row_are_one_failure(lockout):
    for number in range(1, 10):
        assert attempt(lockout, Outcome.INCONCLUSIVE)
        assert (lockout.report(NAME).failures, lockout.report(NAME).inconclusives) == (0, number)
    assert attempt(lockout, Outcome.INCONCLUSIVE)
    assert (lockout.report(NAME).failures, lockout.report(NAME).inconclusives) == (1, 0)


def test_inconclusive_utterances_alone_lock_at_last(lockout):
    for _ in range(50):
        assert attempt(lockout, Outcome.INCONCLUSIVE)
    assert lockout.report(NAME).retry_after == 30


def test_a_failure_interrupts_a_row_of_inconclusive_ones(lockout):
    for _ in range(9):
        attempt(lockout, Outcome.INCONCLUSIVE)
    attempt(lockout, Outcome.REJECTED)
    attempt(lockout, Outcome.INCONCLUSIVE)
    assert (lockout.report(NAME).failures, lockout.report(NAME).inconclusives) == (1, 1)


def test_the_charge_is_on_disk_before_anything_is_scored(lockout, vault, clock):
    assert lockout.charge(NAME)
    crashed = Lockout(Vault.open(vault.folder, DEVICE_KEY), clock)
    assert crashed.report(NAME).failures == 1
    for _ in range(4):
        assert crashed.charge(NAME)
    assert crashed.report(NAME).locked


def test_a_crash_gives_no_free_try_at_the_fifth_failure(lockout, vault, clock):
    fail(lockout, clock, 4)
    assert lockout.charge(NAME)
    assert not Lockout(vault, clock).charge(NAME)


def test_a_refund_leaves_no_trace(lockout, clock):
    fail(lockout, clock, 6)
    clock.pass_(60)
    before = lockout.report(NAME)
    assert lockout.charge(NAME)
    lockout.refund(NAME)
    assert lockout.report(NAME) == before


def test_the_state_survives_a_restart_of_the_daemon(lockout, vault, clock):
    fail(lockout, clock, 5)
    clock.pass_(10)
    again = Lockout(Vault.open(vault.folder, DEVICE_KEY), clock)
    assert again.restart() == ()
    assert again.report(NAME).retry_after == 20


def test_after_a_reboot_the_delay_begins_again(lockout, vault, clock):
    fail(lockout, clock, 5)
    clock.pass_(25)
    clock.reboot()
    again = Lockout(vault, clock)
    again.restart()
    clock.pass_(10)
    assert again.report(NAME).retry_after == 20
    clock.pass_(20)
    assert attempt(again, Outcome.ACCEPTED)


def test_a_delay_that_was_over_does_not_come_back_with_a_reboot(lockout, vault, clock):
    fail(lockout, clock, 5)
    clock.pass_(30)
    assert not lockout.report(NAME).locked
    clock.reboot()
    assert not Lockout(vault, clock).report(NAME).locked


def test_a_clock_that_runs_back_within_a_boot_shortens_nothing(lockout, clock):
    fail(lockout, clock, 5)
    clock.pass_(-20)
    assert lockout.report(NAME).retry_after == 30


def test_setting_the_wall_clock_changes_nothing(vault, monkeypatch):
    lockout = Lockout(vault)
    for _ in range(5):
        assert attempt(lockout, Outcome.REJECTED)
    monkeypatch.setattr("time.time", lambda: 10.0)
    monkeypatch.setattr("time.time_ns", lambda: 10**10)
    assert 0 < lockout.report(NAME).retry_after <= 30
    monkeypatch.setattr("time.time", lambda: 9e9)
    assert lockout.report(NAME).locked


def test_the_boot_clock_moves_forward_within_one_boot():
    clock = BootClock()
    first, second = clock.now(), clock.now()
    assert first.boot == second.boot == BootClock().now().boot
    assert second.seconds_since(first) >= 0
    assert second.seconds_since(replace(first, boot="another")) is None


def test_a_damaged_state_locks_and_says_what_to_do(lockout, vault, clock):
    fail(lockout, clock, 1)
    path = lockout_file(vault)
    damage(path)
    report = lockout.report(NAME)
    assert report.locked and report.disabled and "voiceid lockout reset" in report.problem
    with pytest.raises(VaultError, match="lockout reset"):
        lockout.charge(NAME)
    (problem,) = Lockout(vault, clock).restart()
    assert "damaged" in problem and vault.pseudonym(NAME) in problem and NAME not in problem
    lockout.reset(NAME)
    assert attempt(lockout, Outcome.ACCEPTED)


def test_an_unreadable_payload_locks_too(lockout, vault):
    vault.save_lockout(NAME, b"\xa1\x61x\x01")
    assert lockout.report(NAME).problem
    with pytest.raises(VaultError):
        lockout.charge(NAME)


def test_nothing_may_be_judged_where_the_charge_cannot_be_written(lockout, vault, monkeypatch):
    def full(name, state):
        raise VaultError("disk full")

    monkeypatch.setattr(vault, "save_lockout", full)
    with pytest.raises(VaultError, match="disk full"):
        lockout.charge(NAME)


def test_users_do_not_share_a_lock(lockout, vault, clock):
    vault.save_template(make_template("Bob", seed=1))
    fail(lockout, clock, 5)
    assert not lockout.report("Bob").locked
    assert attempt(lockout, Outcome.ACCEPTED, "Bob")


def test_nobody_of_that_name(lockout):
    with pytest.raises(UnknownUserError):
        lockout.charge("Nobody")
    with pytest.raises(UnknownUserError):
        lockout.report("Nobody")


def test_deleting_the_user_in_the_middle_of_a_ceremony_is_no_fault(lockout, vault):
    assert lockout.charge(NAME)
    assert vault.delete_user(NAME).lockout
    lockout.settle(NAME, Outcome.REJECTED)


def test_nobody_who_is_not_enrolled_has_a_pin(lockout):
    with pytest.raises(UnknownUserError):
        lockout.set_pin("ghost", "2580", admin=True)


def test_a_pin_ends_the_delay_but_not_the_count(lockout, clock):
    lockout.set_pin(NAME, "2580")
    fail(lockout, clock, 5)
    assert lockout.enter_pin(NAME, "2581") is False
    assert lockout.report(NAME).locked
    assert lockout.enter_pin(NAME, "2580") is True
    report = lockout.report(NAME)
    assert not report.locked and report.failures == 5 and report.pin_tries == PIN_TRIES
    assert attempt(lockout, Outcome.REJECTED)
    assert lockout.report(NAME).retry_after == 60


def test_a_pin_does_not_enable_a_disabled_voice(lockout, clock):
    lockout.set_pin(NAME, "2580")
    fail(lockout, clock, DISABLED_AT)
    assert lockout.enter_pin(NAME, "2580") is True
    assert lockout.report(NAME).disabled
    assert not attempt(lockout, Outcome.ACCEPTED)


def test_a_pin_has_eight_tries_that_survive_a_crash(lockout, vault, clock, monkeypatch):
    lockout.set_pin(NAME, "2580")

    def crash(pin, phc):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("voiceid.service.lockout.is_pin", crash)
        lockout.enter_pin(NAME, "1111")
    again = Lockout(vault, clock)
    assert again.report(NAME).pin_tries == PIN_TRIES - 1
    for _ in range(PIN_TRIES - 1):
        assert again.enter_pin(NAME, "1111") is False
    assert again.enter_pin(NAME, "2580") is None
    assert not again.report(NAME).pin
    again.reset(NAME)
    assert again.enter_pin(NAME, "2580") is True


def test_no_pin_no_entry(lockout):
    assert lockout.enter_pin(NAME, "2580") is None


def test_a_pin_is_changed_only_by_who_knows_it_or_an_admin(lockout):
    lockout.set_pin(NAME, "2580")
    with pytest.raises(PresentPinError):
        lockout.set_pin(NAME, "1470")
    with pytest.raises(PinError, match="not the present PIN"):
        lockout.set_pin(NAME, "1470", current="1111")
    with pytest.raises(PresentPinError):
        lockout.clear_pin(NAME)
    lockout.set_pin(NAME, "1470", current="2580")
    assert lockout.enter_pin(NAME, "1470") is True
    lockout.set_pin(NAME, "3690", admin=True)
    assert lockout.enter_pin(NAME, "3690") is True
    lockout.clear_pin(NAME, current="3690")
    assert lockout.enter_pin(NAME, "3690") is None
    with pytest.raises(PinError, match="no PIN"):
        lockout.clear_pin(NAME, admin=True)


def test_whoever_is_locked_cannot_give_himself_a_new_pin(lockout, clock):
    fail(lockout, clock, 5)
    with pytest.raises(PinError, match="locked"):
        lockout.set_pin(NAME, "2580")
    lockout.set_pin(NAME, "2580", admin=True)
    assert lockout.enter_pin(NAME, "2580") is True


@pytest.mark.parametrize("pin", ["123", "1111", "1234", "9876", "x" * 65, "abcd"])
def test_pins_that_anybody_would_try_are_refused(lockout, pin):
    with pytest.raises(PinError):
        lockout.set_pin(NAME, pin)


def test_a_pin_is_one_pin_however_its_characters_are_composed(lockout):
    lockout.set_pin(NAME, "caf\u00e9!")
    assert lockout.enter_pin(NAME, "cafe\u0301!") is True


def test_the_pin_is_not_in_the_state(lockout, vault):
    lockout.set_pin(NAME, "2580")
    state = LockoutState.from_bytes(vault.load_lockout(NAME))
    assert state.pin.startswith("$argon2id$") and "2580" not in state.pin


@given(
    st.builds(
        LockoutState,
        st.integers(0, 30),
        st.integers(0, 10),
        st.none() | st.builds(Moment, st.text(max_size=40), st.integers(0, 2**50)),
        st.text(max_size=100),
        st.integers(0, 9),
    )
)
def test_a_state_is_read_as_it_was_written(state):
    assert LockoutState.from_bytes(state.to_bytes()) == state


@given(st.lists(st.sampled_from([*Outcome]), max_size=80))
def test_no_sequence_of_outcomes_gives_more_than_25_failures_without_an_acceptance(outcomes):
    clock, state, judged = FakeClock(), LockoutState(), 0
    for outcome in outcomes:
        state = state.refreshed(clock.now())
        if state.disabled or state.remaining(clock.now()):
            clock.pass_(3600)
            continue
        state = state.charged(clock.now())
        judged = 0 if outcome is Outcome.ACCEPTED else judged + (outcome is not Outcome.INCONCLUSIVE)
        if outcome is Outcome.ACCEPTED:
            state = state.accepted()
        else:
            state = state.inconclusive() if outcome is Outcome.INCONCLUSIVE else state.failed()
        assert state.failures >= judged
        assert state.disabled == (state.failures >= DISABLED_AT)
    assert judged <= DISABLED_AT


@given(st.binary(max_size=80))
def test_any_bytes_are_a_state_or_an_error(data):
    try:
        LockoutState.from_bytes(data)
    except VaultError:
        return
