"""One ceremony from its first candidate to its verdict: whom it was charged to, and what is known in advance."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field

from voiceid.enrolment.template import Template
from voiceid.pipeline import Examined, Identification, Pipeline
from voiceid.stopwatch import Stopwatch
from voiceid.types import Waveform


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """What the ear delivers, this very ``waveform``, unless more is said: then ``void`` is set, by any thread."""

    waveform: Waveform
    asked_for: bool
    """Whether a client's call opened the ear."""
    began: float
    """When the ear opened, in seconds on the monotonic clock."""
    void: threading.Event = field(default_factory=threading.Event)


class Breakable(Stopwatch):
    """Breaks work off with CancelledError at the first stage that begins after ``void`` was set."""

    def __init__(self, void: threading.Event) -> None:
        super().__init__()
        self._void = void

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self._void.is_set():
            raise CancelledError
        with super().stage(name):
            yield


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What ``pipeline`` found of ``waveform`` and ``templates``; ``identification`` where it was to find out who."""

    pipeline: Pipeline
    waveform: Waveform
    templates: tuple[Template, ...]
    examined: Examined
    identification: Identification | None = None

    def is_of(self, pipeline: Pipeline, waveform: Waveform, templates: Sequence[Template]) -> bool:
        """Whether these very models would find the same of this very waveform and equal templates."""
        return (
            self.pipeline is pipeline
            and self.waveform is waveform
            and [_records(template) for template in self.templates] == [_records(template) for template in templates]
        )


class Attempt:
    """Belongs to the scoring thread."""

    def __init__(self) -> None:
        self.charges: dict[str, bool] = {}
        """Whether the lock-out took the charge, by user: each is asked once, however many candidates there are."""
        self.kept: Kept | None = None
        """Of the last candidate; a candidate that is void is never delivered, so that nobody asks for it."""
        self.early = False
        """Whether the verdict rests on what was kept."""

    @property
    def charged(self) -> tuple[str, ...]:
        """Who paid for it."""
        return tuple(name for name, charged in self.charges.items() if charged)

    def recall(self, pipeline: Pipeline, waveform: Waveform, templates: Sequence[Template]) -> Kept | None:
        """What is kept, if it is of these."""
        kept = self.kept if self.kept is not None and self.kept.is_of(pipeline, waveform, templates) else None
        self.early = self.early or kept is not None
        return kept


def _records(template: Template) -> list[bytes]:
    """All that is stored of ``template``, the matching templates for further models included."""
    return [template.to_bytes(), *(matching.to_bytes() for matching in template.renewed)]
