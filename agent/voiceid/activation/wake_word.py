"""Activation by a wake word, behind a voice activity gate."""

from __future__ import annotations

import numpy as np

from voiceid.activation.activation import Activated, ActivationKind
from voiceid.activation.engines import WakeWordEngine
from voiceid.audio.ring import RingBuffer
from voiceid.audio.streaming_vad import StreamingVad
from voiceid.audio.vad import FRAME_SECONDS
from voiceid.types import Samples

GATE_LEAD = 0.5
"""Seconds before the first speech that the engine hears too: words begin softly."""
GATE_HOLD = 1.0
"""Seconds without speech after which the engine rests; it answers late, so it must hear past the word."""
MARGIN = 0.2
"""Seconds before the speech that belong to the utterance."""
LONGEST = 1.5
"""Seconds that a wake word takes at most: where people spoke before it, the utterance begins this long ago."""


class WakeWord:
    """Activates when the engine hears its word. The engine hears speech and what is around it, not the silence."""

    kind = ActivationKind.WAKE_WORD

    def __init__(self, engine: WakeWordEngine, word: str, *, threshold: float | None = None) -> None:
        """``threshold`` in place of the engine's own."""
        self._engine, self._word = engine, word
        self._threshold = engine.threshold if threshold is None else threshold
        self._vad = StreamingVad()
        self._before = RingBuffer(GATE_LEAD)
        self._open_for: float | None = None
        self._quiet_for = 0.0

    def feed(self, samples: Samples) -> Activated | None:
        speech = self._vad.is_speech(samples)
        if self._open_for is None:
            if not speech:
                self._before.push(samples)
                return None
            heard = np.concatenate((self._before.last(GATE_LEAD), samples))
            self._before.clear()
            self._open_for = self._quiet_for = 0.0
        else:
            heard = samples
        return self._listen(heard, speech)

    def reset(self) -> None:
        self._engine.reset()
        self._vad.reset()
        self._before.clear()
        self._open_for = None

    def _listen(self, samples: Samples, speech: bool) -> Activated | None:
        assert self._open_for is not None  # noqa: S101 - the gate is open
        self._open_for += FRAME_SECONDS
        self._quiet_for = 0.0 if speech else self._quiet_for + FRAME_SECONDS
        probability = self._engine.feed(_pcm(samples))
        if probability > self._threshold:
            lookback = min(self._open_for + MARGIN, LONGEST)
            self.reset()
            return Activated(self.kind, lookback, self._word, probability)
        if self._quiet_for >= GATE_HOLD:
            self._open_for = None
        return None


def _pcm(samples: Samples) -> bytes:
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
