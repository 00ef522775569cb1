"""From an activation to the end of what is said."""

from __future__ import annotations

from enum import StrEnum, unique

import numpy as np

from voiceid.audio.streaming_vad import StreamingVad
from voiceid.audio.vad import FRAME, FRAME_SECONDS
from voiceid.settings import ActivationSettings
from voiceid.types import Samples, Source, Waveform

TAIL = 0.3
"""Seconds that an utterance keeps after its last speech, however long it is listened on."""


@unique
class Ending(StrEnum):
    """Why an utterance is over."""

    SPEECH_ENDED = "speech_ended"
    NO_SPEECH = "no_speech"
    """Too little was said after the activation."""
    TOO_LONG = "too_long"
    FINISHED = "finished"
    """The caller ended it: the source was at its end, or the button was let go."""


class UtteranceCollector:
    """Takes frames after an activation until speech has ended; each frame is looked at once."""

    def __init__(self, settings: ActivationSettings, source: Source, *, lead: Samples | None = None) -> None:
        """``lead`` (n,) is what was heard before the activation and belongs to the utterance."""
        self._settings, self._source = settings, source
        self._vad = StreamingVad()
        self._parts: list[Samples] = []
        self._seconds = self._speech = self._silence = 0.0
        self._ending: Ending | None = None
        self._candidate: Waveform | None = None
        if lead is not None and lead.size:
            self._take_lead(lead)

    @property
    def ending(self) -> Ending | None:
        """Why it is over, once it is."""
        return self._ending

    @property
    def seconds(self) -> float:
        """Audio since the activation."""
        return self._seconds

    @property
    def speech(self) -> float:
        """Speech since the activation (seconds)."""
        return self._speech

    @property
    def candidate(self) -> Waveform | None:
        """What :meth:`feed` will deliver, this very object, unless more is said; known :data:`TAIL` after speech."""
        return self._candidate

    def feed(self, samples: Samples) -> Waveform | None:
        """Hear the next frame, float32 (:data:`voiceid.audio.vad.FRAME`,); the whole utterance when it is over."""
        self._parts.append(samples)
        self._seconds += FRAME_SECONDS
        if self._vad.is_speech(samples):
            self._speech += FRAME_SECONDS
            self._silence = 0.0
            self._candidate = None
        else:
            self._silence += FRAME_SECONDS
        enough = self._speech >= self._settings.min_speech
        if enough and self._candidate is None and self._silence >= TAIL:
            self._candidate = self._waveform()
        ending = self._judge()
        return None if ending is None else self._end(ending)

    def finish(self) -> Waveform:
        """End the utterance now, with what has been heard."""
        return self._end(Ending.FINISHED)

    def _judge(self) -> Ending | None:
        enough = self._speech >= self._settings.min_speech
        if enough and self._silence >= self._settings.end_silence:
            return Ending.SPEECH_ENDED
        if not enough and self._seconds >= self._settings.start_timeout:
            return Ending.NO_SPEECH
        if self._seconds >= self._settings.max_seconds:
            return Ending.TOO_LONG
        return None

    def _end(self, ending: Ending) -> Waveform:
        self._ending = ending
        return self._candidate or self._waveform()

    def _waveform(self) -> Waveform:
        return Waveform(np.concatenate(self._parts) if self._parts else np.zeros(0, np.float32), self._source)

    def _take_lead(self, lead: Samples) -> None:
        for frame in lead[len(lead) % FRAME :].reshape(-1, FRAME):
            self._vad.is_speech(frame)
        self._parts.append(lead)
