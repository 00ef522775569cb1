"""From a captured waveform to the utterance that every model sees."""

from __future__ import annotations

from voiceid.audio.level import apply_level
from voiceid.audio.quality import measure_quality
from voiceid.audio.vad import speech_segments
from voiceid.settings import QualitySettings
from voiceid.types import SAMPLE_RATE, Segment, Utterance, Waveform

MARGIN = 0.1
"""Seconds kept before the first and after the last speech, so that no model can lean on how long the silence is."""


def prepare(waveform: Waveform, settings: QualitySettings | None = None) -> Utterance:
    """Detect speech, measure quality, trim to the speech and apply the level policy.

    An utterance without speech keeps all its samples; its quality says that it is unusable.
    """
    samples = waveform.samples
    speech = speech_segments(samples)
    quality = measure_quality(samples, speech, settings or QualitySettings())
    if speech:
        start = max(0, int((speech[0].start - MARGIN) * SAMPLE_RATE))
        end = min(len(samples), int((speech[-1].end + MARGIN) * SAMPLE_RATE))
        offset = start / SAMPLE_RATE
        samples = samples[start:end]
        speech = tuple(Segment(s.start - offset, s.end - offset) for s in speech)
    return Utterance(apply_level(samples, speech) if samples.size else samples, speech, quality, waveform.source)
