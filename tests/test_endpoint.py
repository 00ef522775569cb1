"""End of speech: after the last word, not at a pause, and never too late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.audio_helpers import in_frames, noise, voiced
from voiceid.activation import Ending, UtteranceCollector
from voiceid.activation.endpoint import TAIL
from voiceid.audio import read_waveform
from voiceid.audio.streaming_vad import StreamingVad
from voiceid.audio.vad import FRAME, FRAME_SECONDS, speech_segments
from voiceid.settings import ActivationSettings
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

SETTINGS = ActivationSettings(end_silence=0.6, min_speech=0.3, start_timeout=2.0, max_seconds=5.0)


def collect(collector: UtteranceCollector, samples: Samples) -> tuple[Waveform | None, float]:
    """The utterance, and the seconds of ``samples`` that were needed."""
    for number, frame in enumerate(in_frames(samples, FRAME)):
        if (waveform := collector.feed(frame)) is not None:
            return waveform, (number + 1) * FRAME_SECONDS
    return None, len(samples) / SAMPLE_RATE


def spoken(*parts: Samples) -> Samples:
    """``parts`` over the noise of a quiet room."""
    joined = np.concatenate(parts)
    return joined + noise(len(joined) / SAMPLE_RATE, 3e-4)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def test_speech_ends_after_the_hang_over() -> None:
    collector = UtteranceCollector(SETTINGS, Source.MICROPHONE)
    waveform, needed = collect(collector, spoken(silence(0.3), voiced(1.5), silence(3)))
    assert collector.ending is Ending.SPEECH_ENDED
    assert needed == pytest.approx(0.3 + 1.5 + 0.6, abs=0.2)
    assert waveform is not None and waveform.source is Source.MICROPHONE
    assert waveform.seconds == pytest.approx(needed - SETTINGS.end_silence + TAIL, abs=2 * FRAME_SECONDS)
    assert collector.speech == pytest.approx(1.5, abs=0.2)


def test_a_pause_between_words_does_not_end_it() -> None:
    collector = UtteranceCollector(SETTINGS, Source.MICROPHONE)
    _, needed = collect(collector, spoken(voiced(0.8), silence(0.4), voiced(0.8), silence(3)))
    assert needed == pytest.approx(0.8 + 0.4 + 0.8 + 0.6, abs=0.2)


def test_a_longer_hang_over_waits_longer() -> None:
    audio = spoken(voiced(1), silence(0.9), voiced(1), silence(3))
    for end_silence, expected in ((0.6, 1 + 0.6), (1.2, 1 + 0.9 + 1 + 1.2)):
        settings = ActivationSettings(end_silence=end_silence)
        assert collect(UtteranceCollector(settings, Source.FILE), audio)[1] == pytest.approx(expected, abs=0.2)


def test_silence_and_coughs_are_no_utterance() -> None:
    for audio in (silence(4), spoken(silence(4)), spoken(silence(0.5), voiced(0.15), silence(4))):
        collector = UtteranceCollector(SETTINGS, Source.MICROPHONE)
        _, needed = collect(collector, audio)
        assert collector.ending is Ending.NO_SPEECH
        assert needed == pytest.approx(SETTINGS.start_timeout, abs=2 * FRAME_SECONDS)


def test_endless_speech_is_cut() -> None:
    collector = UtteranceCollector(SETTINGS, Source.MICROPHONE)
    waveform, _ = collect(collector, spoken(voiced(8)))
    assert collector.ending is Ending.TOO_LONG
    assert waveform is not None and waveform.seconds == pytest.approx(5, abs=2 * FRAME_SECONDS)


def test_the_lead_belongs_to_the_utterance_but_is_no_command() -> None:
    lead = spoken(voiced(0.7))
    audio = spoken(silence(1), voiced(1), silence(2))
    collector = UtteranceCollector(SETTINGS, Source.MICROPHONE, lead=lead)
    waveform, needed = collect(collector, audio)
    assert needed == pytest.approx(1 + 1 + 0.6, abs=0.2), "the pause after the wake word must not end it"
    assert waveform is not None
    assert np.array_equal(waveform.samples[: len(lead)], lead)
    assert np.array_equal(waveform.samples[len(lead) :], audio[: len(waveform.samples) - len(lead)])


def candidates(collector: UtteranceCollector, samples: Samples) -> tuple[list[tuple[float, Waveform | None]], Waveform]:
    """Every change of the candidate with its time in ``samples``, and what is delivered."""
    changes: list[tuple[float, Waveform | None]] = [(0.0, None)]
    for number, frame in enumerate(in_frames(samples, FRAME)):
        waveform = collector.feed(frame)
        if collector.candidate is not changes[-1][1]:
            changes.append(((number + 1) * FRAME_SECONDS, collector.candidate))
        if waveform is not None:
            return changes[1:], waveform
    return changes[1:], collector.finish()


def test_what_will_be_delivered_is_known_before_the_end_is_certain() -> None:
    collector = UtteranceCollector(SETTINGS, Source.MICROPHONE, lead=voiced(0.5))
    ((offered, candidate),), delivered = candidates(collector, spoken(voiced(1), silence(2)))
    assert offered == pytest.approx(1 + TAIL, abs=0.2) and collector.ending is Ending.SPEECH_ENDED
    assert delivered is candidate and delivered.seconds == pytest.approx(0.5 + offered, abs=FRAME_SECONDS)


def test_a_candidate_is_void_once_speech_resumes() -> None:
    audio = spoken(voiced(0.8), silence(0.45), voiced(0.8), silence(2))
    (first, void, last), delivered = candidates(UtteranceCollector(SETTINGS, Source.MICROPHONE), audio)
    assert first[1] is not None and void[1] is None and last[1] is delivered
    assert first[0] < void[0] == pytest.approx(0.8 + 0.45, abs=0.2)
    assert np.array_equal(delivered.samples, audio[: len(delivered.samples)]), "the pause and all before it is there"


def test_a_cough_is_no_candidate() -> None:
    changes, _ = candidates(UtteranceCollector(SETTINGS, Source.MICROPHONE), spoken(voiced(0.15), silence(4)))
    assert changes == []


def test_an_end_that_comes_before_the_tail_has_no_candidate() -> None:
    settings = ActivationSettings(end_silence=0.2)
    changes, delivered = candidates(UtteranceCollector(settings, Source.MICROPHONE), spoken(voiced(1), silence(2)))
    assert changes == [] and delivered.seconds == pytest.approx(1.2, abs=0.2)


@pytest.mark.parametrize("pause", [0.4, 3.0])
def test_whatever_ends_it_the_candidate_is_delivered(pause: float) -> None:
    settings = ActivationSettings(end_silence=5.0, max_seconds=2.0)
    collector = UtteranceCollector(settings, Source.MICROPHONE)
    changes, delivered = candidates(collector, spoken(voiced(1), silence(pause)))
    assert collector.ending is (Ending.TOO_LONG if pause > 1 else Ending.FINISHED)
    assert [candidate for _, candidate in changes] == [delivered]


def test_an_utterance_can_be_finished_early() -> None:
    collector = UtteranceCollector(SETTINGS, Source.FILE)
    assert collect(collector, spoken(voiced(1)))[0] is None
    waveform = collector.finish()
    assert collector.ending is Ending.FINISHED
    assert waveform.seconds == pytest.approx(1, abs=FRAME_SECONDS) and waveform.source is Source.FILE
    assert UtteranceCollector(SETTINGS, Source.FILE).finish().samples.size == 0


@pytest.mark.parametrize("level", [0.3, 0.03, 0.003])
def test_level_does_not_move_the_end(corpus: Path, level: float) -> None:
    gains = []
    for file in sorted((corpus / "ls-test-clean").glob("*/*.flac"))[:6]:
        samples = read_waveform(file).samples[: 4 * SAMPLE_RATE]
        samples = np.concatenate((samples / np.abs(samples).max(), silence(2))) * level
        samples += noise(6, level / 300)[: len(samples)]
        vad = StreamingVad()
        voices = [vad.is_speech(frame) for frame in in_frames(samples, FRAME)]
        last = (np.flatnonzero(voices)[-1] + 1) * FRAME_SECONDS
        gains.append(last - speech_segments(samples)[-1].end)
    assert np.median(np.abs(gains)) <= 0.15, "the same end of speech as in the whole recording"
    assert np.max(np.abs(gains)) <= 0.6


def test_noise_alone_is_no_speech() -> None:
    for rms in (1e-5, 1e-4, 1e-3):
        vad = StreamingVad()
        voices = [vad.is_speech(frame) for frame in in_frames(noise(3, rms), FRAME)]
        assert np.mean(voices[20:]) <= 0.05
