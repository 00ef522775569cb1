"""Activation: each kind fires when it should, once, and says where the utterance begins."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.audio_helpers import in_frames, noise, voiced
from voiceid.activation import Activated, Activation, ActivationKind, UtteranceCollector, make_activation, open_source
from voiceid.activation.push_to_talk import PushToTalk
from voiceid.activation.wake_word import GATE_HOLD, GATE_LEAD, LONGEST, WakeWord
from voiceid.audio import read_waveform
from voiceid.audio.capture import Capture
from voiceid.audio.file_source import FileSource
from voiceid.audio.vad import FRAME, FRAME_SECONDS
from voiceid.errors import AudioError, MissingPackageError, SettingsError
from voiceid.settings import ActivationSettings, CaptureSettings
from voiceid.types import SAMPLE_RATE, Samples, Source

PACKAGES = {"micro": "pymicro_wakeword", "open": "pyopen_wakeword"}


def hear(activation: Activation, samples: Samples) -> list[tuple[float, Activated]]:
    """Every activation with its time."""
    events = ((number, activation.feed(frame)) for number, frame in enumerate(in_frames(samples, FRAME)))
    return [((number + 1) * FRAME_SECONDS, event) for number, event in events if event is not None]


class RecordingEngine:
    """Keeps what it hears, and recognises a word once it has heard enough."""

    threshold = 0.5

    def __init__(self, after: float = np.inf) -> None:
        self.heard = b""
        self.resets = 0
        self._after = after

    @property
    def seconds(self) -> float:
        return len(self.heard) / 2 / SAMPLE_RATE

    def feed(self, pcm: bytes) -> float:
        self.heard += pcm
        return 0.9 if self.seconds >= self._after else 0.1

    def reset(self) -> None:
        self.resets += 1
        self.heard = b""


def test_push_to_talk_fires_once_for_each_call() -> None:
    activation = make_activation(ActivationSettings(kind="push_to_talk"))
    assert isinstance(activation, PushToTalk)
    assert hear(activation, voiced(0.5)) == []
    activation.arm()
    activation.reset()
    ((at, event),) = hear(activation, noise(0.5))
    assert at == pytest.approx(FRAME_SECONDS) and event.kind is ActivationKind.PUSH_TO_TALK
    activation.arm()
    activation.disarm()
    assert hear(activation, voiced(0.5)) == []


def test_voice_fires_when_speech_begins_and_not_at_clicks() -> None:
    activation = make_activation(ActivationSettings(kind="voice"))
    click = noise(2)
    click[8000:8100] = 0.5
    assert hear(activation, click) == []
    activation.reset()
    events = hear(activation, np.concatenate((noise(1), voiced(0.4), noise(1))))
    assert len(events) == 1
    at, event = events[0]
    assert event.kind is ActivationKind.VOICE and 1 < at < 1.4
    assert at - event.lookback <= 1, "the beginning of the speech belongs to the utterance"


def test_a_file_is_an_utterance_from_its_first_frame() -> None:
    activation = make_activation(ActivationSettings(kind="file", file=Path("x.wav")))
    assert [at for at, _ in hear(activation, noise(1))] == [FRAME_SECONDS]
    activation.reset()
    ((_, event),) = hear(activation, noise(1))
    assert event == Activated(ActivationKind.FILE, FRAME_SECONDS)


def test_the_engine_rests_while_nobody_speaks() -> None:
    engine = RecordingEngine()
    activation = WakeWord(engine, "word")
    hear(activation, noise(5))
    assert engine.heard == b""
    hear(activation, np.concatenate((voiced(1), noise(5))))
    assert engine.seconds == pytest.approx(GATE_LEAD + 1 + GATE_HOLD, abs=0.25)
    before = engine.seconds
    hear(activation, np.concatenate((voiced(1), noise(5))))
    assert engine.seconds - before == pytest.approx(GATE_LEAD + 1 + GATE_HOLD, abs=0.25)


def test_the_engine_hears_what_was_said_in_order() -> None:
    engine = RecordingEngine()
    audio = np.concatenate((noise(1), voiced(1)))
    hear(WakeWord(engine, "word"), audio)
    pcm = (np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes()
    whole = len(audio) // FRAME * FRAME * 2
    assert pcm[:whole].endswith(engine.heard) and len(engine.heard) > SAMPLE_RATE


def test_the_utterance_begins_with_the_wake_word() -> None:
    engine = RecordingEngine(after=GATE_LEAD + 0.8)
    activation = WakeWord(engine, "word")
    ((at, event),) = hear(activation, np.concatenate((noise(1), voiced(0.8), noise(0.4))))
    assert (event.kind, event.wake_word, event.probability) == (ActivationKind.WAKE_WORD, "word", 0.9)
    assert 0.6 <= at - event.lookback <= 1
    assert engine.resets == 1


def test_after_long_talk_the_utterance_begins_a_wake_word_ago() -> None:
    events = hear(WakeWord(RecordingEngine(after=4), "word"), voiced(5))
    assert [event.lookback for _, event in events] == [LONGEST]


def test_a_threshold_of_ones_own_replaces_the_engines() -> None:
    audio = voiced(2)
    assert hear(WakeWord(RecordingEngine(after=1), "word", threshold=0.95), audio) == []
    assert len(hear(WakeWord(RecordingEngine(after=1), "word"), audio)) == 1


@pytest.mark.parametrize("engine", ["micro", "open"])
def test_a_missing_engine_says_what_to_install(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[engine], None)
    with pytest.raises(MissingPackageError, match=r"pip install 'voiceid\[wakeword\]'"):
        make_activation(ActivationSettings(kind="wake_word", engine=engine))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["micro", "open"])
def test_an_unknown_word_is_refused_with_those_it_knows(engine: str) -> None:
    pytest.importorskip(PACKAGES[engine])
    with pytest.raises(SettingsError, match="hey_jarvis"):
        make_activation(ActivationSettings(kind="wake_word", engine=engine, wake_word="sesame"))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["micro", "open"])
def test_real_wake_words_are_heard_and_other_words_are_not(engine: str, corpus: Path) -> None:
    pytest.importorskip(PACKAGES[engine])
    settings = ActivationSettings(kind="wake_word", engine=engine)  # type: ignore[arg-type]
    activation = make_activation(settings)
    heard = {"alexa": 0, "computer": 0}
    for word in heard:
        for path in recordings(corpus, word, 4):
            activation.reset()
            samples = np.concatenate((read_waveform(path).samples, np.zeros(SAMPLE_RATE, np.float32)))
            events = hear(activation, samples)
            heard[word] += len(events)
            assert all(0.3 < event.lookback <= LONGEST and event.wake_word == "alexa" for _, event in events)
    assert heard["alexa"] >= 3 and heard["computer"] == 0


def recordings(corpus: Path, word: str, count: int) -> list[Path]:
    with (corpus / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == "picovoice-wakewords" and row["text"] == word]
    return [corpus / row["path"] for row in rows[:count]]


def test_a_recording_becomes_one_utterance_from_a_file(speech: Path) -> None:
    settings = ActivationSettings(kind="file", file=speech)
    source = open_source(CaptureSettings(), settings)
    assert isinstance(source, FileSource)
    activation, collector, waveform = make_activation(settings), None, None
    for frame in source.frames():
        if collector is None:
            event = activation.feed(frame.samples)
            assert event is not None
            collector = UtteranceCollector(settings, source.source, lead=source.recent(event.lookback))
        elif (waveform := collector.feed(frame.samples)) is not None:
            break
    assert collector is not None
    waveform = waveform or collector.finish()
    assert waveform.source is Source.FILE
    original = read_waveform(speech).samples
    assert np.array_equal(waveform.samples, original[: len(waveform.samples)]) and waveform.seconds > 1


def test_the_source_is_the_microphone_unless_a_file_is_named(tmp_path: Path) -> None:
    assert isinstance(open_source(CaptureSettings(), ActivationSettings()), Capture)
    with pytest.raises(SettingsError, match="needs file"):
        open_source(CaptureSettings(), ActivationSettings(kind="file"))
    with pytest.raises(AudioError, match="no such recording"):
        open_source(CaptureSettings(), ActivationSettings(kind="file", file=tmp_path / "none.wav"))
    recording = tmp_path / "recording.wav"
    recording.write_bytes(b"")
    source = open_source(CaptureSettings(), ActivationSettings(kind="voice", file=recording))
    assert source.source is Source.FILE, "whatever listens to a file signs it as one"
