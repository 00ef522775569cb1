"""Push-to-talk: a call opens the ear."""

from __future__ import annotations

import threading

from voiceid.activation.activation import Activated, ActivationKind
from voiceid.types import Samples

LOOKBACK = 0.3
"""Seconds before the call that belong to the utterance: people speak a little too soon."""


class PushToTalk:
    """Activates once for each :meth:`arm`, which may be called from any thread."""

    kind = ActivationKind.PUSH_TO_TALK

    def __init__(self) -> None:
        self._armed = threading.Event()

    def arm(self) -> None:
        """Activate at the next frame."""
        self._armed.set()

    def disarm(self) -> None:
        """Take :meth:`arm` back if it has not activated yet."""
        self._armed.clear()

    def feed(self, samples: Samples) -> Activated | None:
        if not self._armed.is_set():
            return None
        self._armed.clear()
        return Activated(self.kind, LOOKBACK)

    def reset(self) -> None:
        """Nothing to forget: a call stays a call."""
