"""What nobody may know of others is the same answer, in the same time."""

from __future__ import annotations

import asyncio
import time

from voiceid.service import even_time, guesses
from voiceid.service.guesses import MAX_GUESSES, PERIOD, Guesses


def test_it_waits_for_a_whole_number_of_steps(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(even_time.asyncio, "sleep", sleep)
    for passed in (0.001, 0.03, 0.0999, 0.13):
        monkeypatch.setattr(even_time.time, "monotonic", lambda passed=passed: 50.0 + passed)
        asyncio.run(even_time.even_out(50.0))
    ends = [passed + pause for passed, pause in zip((0.001, 0.03, 0.0999, 0.13), slept, strict=True)]
    assert [round(end, 6) for end in ends] == [0.1, 0.1, 0.1, 0.2]


def test_a_uid_hits_upon_so_many_names_and_no_more(monkeypatch):
    moment = time.monotonic()
    monkeypatch.setattr(guesses.time, "monotonic", lambda: moment)
    tried = Guesses()
    for _ in range(MAX_GUESSES):
        assert tried.may_go_on(1000)
        tried.count(1000)
    assert not tried.may_go_on(1000) and tried.may_go_on(1001)
    moment += PERIOD - 1
    assert not tried.may_go_on(1000)
    moment += 2
    assert tried.may_go_on(1000)
