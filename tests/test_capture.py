"""The microphone: fixed frames from any device, and recovery from everything that happens to one."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from tests.audio_helpers import FakeClock, FakeSound, hum, zeros
from voiceid.audio.block_queue import BlockQueue
from voiceid.audio.capture import BEAT, Capture
from voiceid.audio.capture_state import CaptureEvent, CaptureState
from voiceid.audio.device import Microphone, choose
from voiceid.audio.file_source import FileSource
from voiceid.audio.frames import Frame
from voiceid.audio.holders import alsa_holders, describe_holders
from voiceid.audio.permissions import capture_devices, forbidden_devices
from voiceid.audio.ring import RingBuffer
from voiceid.audio.vad import FRAME
from voiceid.errors import (
    AudioDeviceError,
    AudioError,
    DeviceAccessError,
    DeviceBusyError,
    NoDeviceError,
)
from voiceid.settings import CaptureSettings
from voiceid.types import SAMPLE_RATE, Samples, Source

SETTINGS = CaptureSettings(history=1.0, queue=1.0, lost_after=2.0, silent_after=3.0, reopen_first=0.5, reopen_longest=8)


class Bench:
    """A capture of a fake sound system, and what it said."""

    def __init__(self, settings: CaptureSettings = SETTINGS) -> None:
        self.clock = FakeClock()
        self.sound = FakeSound(self.clock)
        self.events: list[CaptureEvent] = []
        self.capture = Capture(settings, backend=self.sound, clock=self.clock, on_event=self.events.append)
        self._frames = self.capture.frames()

    @property
    def states(self) -> list[str]:
        return [event.state.value for event in self.events]

    def plugged(self, name: str = "USB Mic") -> Bench:
        self.sound.plug(name)
        self.sound.restart()
        return self

    def take(self, count: int = 1) -> list[Frame]:
        return [next(self._frames) for _ in range(count)]

    def until(self, state: CaptureState) -> list[Frame]:
        """Read until the capture comes into ``state``."""
        taken: list[Frame] = []
        while self.capture.state is not state:
            taken += self.take()
        return taken

    def read_to_the_end(self) -> list[Frame]:
        return list(self._frames)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.capture.close()
    bench.read_to_the_end()
    assert not any(stream.open for stream in bench.sound.streams)


def test_frames_have_one_size_and_say_that_they_are_from_a_microphone(bench: Bench) -> None:
    frames = bench.plugged().take(20)
    assert {frame.samples.shape for frame in frames} == {(FRAME,)}
    assert {frame.samples.dtype for frame in frames} == {np.dtype(np.float32)}
    assert [frame.gap for frame in frames] == [True] + [False] * 19
    assert np.array_equal(np.concatenate([frame.samples for frame in frames]), hum(0, 20 * FRAME, SAMPLE_RATE)[:, 0])
    assert bench.capture.source is Source.MICROPHONE
    assert bench.states == ["listening"] and bench.capture.device == "USB Mic"


def test_other_rates_and_channels_are_mixed_down_and_resampled(bench: Bench) -> None:
    bench.sound.rate, bench.sound.channels = 44_100, 2

    def stereo(start: int, count: int, rate: int) -> Samples:
        return hum(start, count, rate) * np.array([[1.5, 0.5]], np.float32)

    bench.sound.hears = stereo
    frames = bench.plugged().take(60)
    samples = np.concatenate([frame.samples for frame in frames])[10 * FRAME :]
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * SAMPLE_RATE / len(samples) == pytest.approx(200, abs=1)
    assert np.abs(samples).max() == pytest.approx(0.1, rel=0.02)
    assert bench.clock.now - 1000 == pytest.approx(60 * FRAME / SAMPLE_RATE, abs=0.1)


def test_the_history_begins_before_now_and_is_bounded(bench: Bench) -> None:
    frames = bench.plugged().take(100)
    everything = np.concatenate([frame.samples for frame in frames])
    assert np.array_equal(bench.capture.recent(0.5), everything[-8000:])
    assert np.array_equal(bench.capture.recent(60), everything[-SAMPLE_RATE:])


def test_no_microphone_is_waited_for_with_growing_pauses(bench: Bench) -> None:
    bench.clock.at(20, lambda: bench.sound.plug("USB Mic"))
    bench.take()
    pauses = [later - earlier for earlier, later in pairwise(bench.sound.attempts)]
    assert pauses == pytest.approx([0.5, 1, 2, 4, 8, 8])
    assert bench.states == ["no_device", "listening"]
    assert "connect one" in bench.events[0].detail
    assert bench.capture.counters.attempts == 7 and bench.capture.counters.opens == 1


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (DeviceBusyError("arecord (process 7) uses it"), CaptureState.BUSY),
        (DeviceAccessError("add the user to the group audio"), CaptureState.DENIED),
        (AudioDeviceError("the PortAudio library is missing"), CaptureState.UNAVAILABLE),
    ],
)
def test_a_refusal_is_named_and_overcome(bench: Bench, error: AudioDeviceError, state: CaptureState) -> None:
    def free() -> None:
        bench.sound.error = None

    bench.plugged().sound.error = error
    bench.clock.at(3, free)
    bench.take()
    assert bench.states == [state.value, "listening"]
    assert bench.events[0].detail == str(error)
    assert bench.capture.counters.entered[state] == 1


def test_an_unplugged_microphone_is_lost_until_it_is_back_under_another_number(bench: Bench) -> None:
    bench.plugged().take(10)
    bench.sound.unplug()
    bench.clock.at(5, lambda: bench.sound.plug("USB Mic", index=3))
    (frame,) = bench.take()
    assert bench.states == ["listening", "lost", "listening"]
    assert "unplugged" in bench.events[1].detail and bench.events[1].device == "USB Mic"
    assert frame.gap and bench.sound.opened[-1].index == 3
    assert len(bench.capture.recent(1)) == FRAME, "nothing from before the gap may join"


def test_a_device_that_delivers_nothing_counts_as_lost(bench: Bench) -> None:
    bench.plugged().take(10)
    bench.sound.streams[0].hanging = True
    silent_from = bench.clock.now
    assert bench.take()[0].gap
    assert bench.states == ["listening", "lost", "listening"]
    assert bench.events[1].at - silent_from == pytest.approx(SETTINGS.lost_after, abs=BEAT)


def test_a_device_that_comes_and_goes_is_not_opened_in_a_tight_loop(bench: Bench) -> None:
    bench.plugged()
    for _ in range(5):
        bench.take(3)
        bench.sound.streams[-1].active = False
    pauses = [later - earlier for earlier, later in pairwise(bench.sound.attempts)]
    assert pauses == sorted(pauses) and pauses[-1] >= 4
    bench.take(250)
    bench.sound.streams[-1].active = False
    bench.take()
    assert bench.sound.attempts[-1] - bench.events[-2].at == pytest.approx(0.5), "steady again: pauses begin anew"


def test_digital_silence_is_noticed_and_ends_by_itself(bench: Bench) -> None:
    bench.plugged().take(10)
    bench.sound.hears = zeros
    bench.until(CaptureState.SILENT)
    assert bench.events[-1].at - bench.clock.monotonic() <= 0
    assert "unmute" in bench.events[-1].detail
    bench.take(100)
    assert bench.states == ["listening", "silent"], "reopening a silent device is no change"
    assert len(bench.sound.streams) > 1
    bench.sound.hears = hum
    bench.until(CaptureState.LISTENING)
    assert bench.states == ["listening", "silent", "listening"]


def test_a_stale_silent_stream_is_opened_anew(bench: Bench) -> None:
    def stale(start: int, count: int, rate: int) -> Samples:
        return (zeros if len(bench.sound.streams) == 1 else hum)(start, count, rate)

    bench.plugged().sound.hears = stale
    bench.until(CaptureState.SILENT)
    bench.until(CaptureState.LISTENING)
    assert len(bench.sound.streams) == 2


def test_suspending_releases_the_device_and_resuming_takes_it_again(bench: Bench) -> None:
    def sleep() -> None:
        bench.clock.asleep += 3600

    bench.plugged().take(10)
    bench.capture.suspend()
    released: list[bool] = []
    bench.clock.at(1, lambda: released.append(not bench.sound.streams[0].open))
    bench.clock.at(4, sleep)
    bench.clock.at(5, bench.capture.resume)
    (frame,) = bench.take()
    bench.take(10)
    assert released == [True] and frame.gap and len(bench.sound.streams) == 2
    assert bench.states == ["listening", "suspended", "listening"]


def test_a_sleep_that_nobody_announced_opens_the_device_anew(bench: Bench) -> None:
    bench.plugged().take(10)
    bench.clock.asleep += 3600
    frames = bench.take(20)
    assert bench.states == ["listening", "suspended", "listening"] and any(frame.gap for frame in frames)
    assert "slept for 3600 s" in bench.events[1].detail
    assert len(bench.sound.streams) == 2 and not bench.sound.streams[0].open


def test_being_held_up_between_the_clocks_is_no_sleep(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def held_up() -> float:
        before = bench.clock.now
        if next(hold_ups, False):
            bench.clock.now += 60
        return before

    hold_ups = iter([False, True])
    bench.plugged().take(3)
    monkeypatch.setattr(bench.clock, "boottime", held_up)
    bench.take(20)
    assert bench.states == ["listening"]


def test_a_slow_reader_loses_the_oldest_audio_and_it_is_counted(bench: Bench) -> None:
    bench.sound.hears = lambda start, count, rate: np.arange(start, start + count, dtype=np.float32)[:, None] / 2**20
    bench.plugged().take(10)
    bench.clock.run(4)
    (frame,) = bench.take()
    counters = bench.capture.counters
    assert frame.gap
    assert counters.dropped == pytest.approx(3 * SAMPLE_RATE, abs=2 * FRAME)
    kept = SAMPLE_RATE // FRAME * FRAME
    assert frame.samples[0] * 2**20 == bench.sound.streams[0].sent - kept, "the newest second is kept"
    assert not any(frame.gap for frame in bench.take(50))


def test_audio_that_the_sound_system_lost_is_a_gap_and_is_counted(bench: Bench) -> None:
    bench.plugged().take(10)
    bench.sound.streams[0].overflowed = True
    assert [frame.gap for frame in bench.take(2)] == [True, False]
    assert bench.capture.counters.overflows == 1 and bench.capture.counters.dropped == 0


def test_the_heart_beats_without_a_device(bench: Bench) -> None:
    ages: list[float] = []

    def look() -> None:
        ages.append(bench.clock.now - bench.capture.heartbeat)
        bench.clock.at(0.3, look)

    bench.clock.at(0, look)
    bench.clock.at(60, lambda: bench.sound.plug("USB Mic"))
    bench.take()
    assert len(ages) > 100 and max(ages) <= BEAT


def test_closing_ends_the_frames_and_releases_the_device() -> None:
    bench = Bench().plugged()
    bench.take(3)
    bench.capture.close()
    assert bench.read_to_the_end() == []
    assert bench.states == ["listening", "closed"] and not bench.sound.streams[0].open


def test_closing_ends_the_wait_for_a_device() -> None:
    bench = Bench()
    bench.clock.at(9, bench.capture.close)
    assert bench.read_to_the_end() == []
    assert bench.states == ["no_device", "closed"] and bench.clock.now <= 1010


def test_a_reader_that_stops_releases_the_device() -> None:
    bench = Bench().plugged()
    frames = bench.capture.frames()
    next(frames)
    frames.close()  # type: ignore[attr-defined]
    assert not bench.sound.streams[0].open and bench.capture.state is CaptureState.CLOSED


def test_real_threads_and_the_real_clock() -> None:
    clock = FakeClock()
    sound = FakeSound(clock)
    sound.plug("USB Mic")
    sound.restart()
    capture = Capture(SETTINGS, backend=sound)
    heard: list[Frame] = []

    def read() -> None:
        for frame in capture.frames():
            heard.append(frame)
            if len(heard) == 50:
                capture.close()

    reader = threading.Thread(target=read)
    reader.start()
    while reader.is_alive():
        if sound.streams and capture.counters.frames + 10 > sound.streams[0].sent / FRAME:
            clock.run(0.03)
    reader.join()
    assert len(heard) == 50 and capture.counters.dropped == 0


def test_the_queue_keeps_the_newest_blocks_and_marks_what_is_missing() -> None:
    counts: Counter[str] = Counter()
    queue = BlockQueue(2, threading.Condition(), FakeClock(), counts)
    for number, lost in enumerate([False, False, False, True]):
        queue.put(np.full((10, 1), number, np.float32), lost)
    received = [queue.get(0.1), queue.get(0.1)]
    assert [(block[0][0, 0], block[1]) for block in received if block is not None] == [(2, True), (3, True)]
    assert queue.get(0.1) is None and counts == {"dropped": 20, "overflows": 1}


@given(st.lists(st.integers(0, 700), max_size=12), st.integers(0, 700))
def test_the_ring_holds_the_last_samples(sizes: list[int], wanted: int) -> None:
    ring = RingBuffer(320 / SAMPLE_RATE)
    everything = np.arange(sum(sizes), dtype=np.float32)
    for part in np.split(everything, np.cumsum(sizes)[:-1]) if sizes else []:
        ring.push(part)
    kept = everything[-320:] if everything.size else everything
    assert np.array_equal(ring.last(wanted / SAMPLE_RATE), kept[max(0, len(kept) - wanted) :])
    ring.clear()
    assert ring.last(1).size == 0


FOUND = tuple(
    Microphone(index, name, 2, 48_000, default)
    for index, (name, default) in enumerate(
        [("HDA Intel: ALC (hw:0,0)", False), ("USB Mic [C-Media]: Audio (hw:1,0)", False), ("pulse", True)]
    )
)


@pytest.mark.parametrize(
    ("name", "index"), [(None, 2), ("usb", 1), ("USB*(hw:?,0)", 1), ("*alc*", 0), ("[c-media]", 1), ("hw:0", 0)]
)
def test_a_microphone_is_chosen_by_name_or_pattern(name: str | None, index: int) -> None:
    assert choose(FOUND, name).index == index


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    for name in ("webcam", "hw*"):
        with pytest.raises(NoDeviceError, match="USB Mic"):
            choose(FOUND, name)
    with pytest.raises(NoDeviceError, match="connect one"):
        choose((), None)
    assert choose(FOUND[:2], None).index == 0


def test_the_holder_of_a_device_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status = tmp_path / "asound" / "card1" / "pcm0c" / "sub0" / "status"
    status.parent.mkdir(parents=True)
    status.write_text("state: RUNNING\nowner_pid   : 4711\ntrigger_time: 1.0\n")
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "comm").write_text("arecord\n")
    assert [str(holder) for holder in alsa_holders(tmp_path)] == ["arecord (process 4711)"]
    assert "arecord (process 4711) uses it" in describe_holders(tmp_path)
    status.write_text("closed\n")
    assert alsa_holders(tmp_path) == () and "another program" in describe_holders(tmp_path)


def test_forbidden_sound_cards_are_found(tmp_path: Path) -> None:
    for name in ("pcmC0D0c", "pcmC0D0p", "controlC0"):
        (tmp_path / name).touch(mode=0o000)
    assert capture_devices(tmp_path) == (tmp_path / "pcmC0D0c",)
    if os.geteuid() == 0:
        pytest.skip("root may use everything")
    assert forbidden_devices(tmp_path) == (tmp_path / "pcmC0D0c",)


def test_a_recording_gives_frames_that_say_so(tmp_path: Path) -> None:
    path = tmp_path / "clip.wav"
    soundfile.write(path, hum(0, 48_000, 48_000), 48_000)
    source = FileSource(path, history=0.3)
    frames = list(source.frames())
    assert source.source is Source.FILE
    assert len(frames) == SAMPLE_RATE // FRAME and [frame.gap for frame in frames[:2]] == [True, False]
    assert np.array_equal(source.recent(0.06), np.concatenate([frames[-2].samples, frames[-1].samples]))
    with pytest.raises(AudioError, match="no such recording"):
        FileSource(tmp_path / "none.wav")


def test_a_pipe_that_nobody_writes_to_is_left_when_the_source_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for with_writer in (False, True):
        writer = os.open(path, os.O_RDWR) if with_writer else None
        source = FileSource(path)
        reader = threading.Thread(target=lambda source=source: list(source.frames()), daemon=True)
        reader.start()
        source.close()
        reader.join(60)
        assert not reader.is_alive()
        if writer is not None:
            os.close(writer)


def test_a_pipe_gives_what_is_written_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pcm = (hum(0, 10 * FRAME + 7, SAMPLE_RATE)[:, 0] * 32767).astype("<i2")
    writer = threading.Thread(target=lambda: path.write_bytes(pcm.tobytes()))
    writer.start()
    frames = list(FileSource(path).frames())
    writer.join()
    assert len(frames) == 10
    assert np.allclose(np.concatenate([f.samples for f in frames]), hum(0, 10 * FRAME, SAMPLE_RATE)[:, 0], atol=1e-4)
