"""The ear: a recording or a pipe in the microphone's place, requests that ask, and what is spontaneous."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceid.activation import Ending
from voiceid.errors import AudioError
from voiceid.service.attempt import Candidate
from voiceid.service.ear import Heard
from voiceid.service.hearing import Hearing
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.settings import ActivationSettings, CaptureSettings, Settings
from voiceid.types import SAMPLE_RATE, Source, Waveform


def settings(path, **more):
    return Settings(activation=ActivationSettings(**{"kind": "file", "file": path, **more}))


async def hear(path, ask, **more):
    """Run ``ask`` with a hearing of ``path`` and the list of what it takes for spontaneous."""
    spontaneous = []
    async with asyncio.timeout(60):
        hearing = Hearing(
            settings(path, **more),
            on_spontaneous=spontaneous.append,
            on_candidate=spontaneous.append,
            on_dropped=lambda: spontaneous.append("dropped"),
            on_microphone=lambda event: None,
        )
        try:
            return await ask(hearing, spontaneous)
        finally:
            hearing.close()


@pytest.fixture
def recording(speech, tmp_path):
    """Two seconds of speech and one of silence."""
    samples, _ = soundfile.read(speech, dtype="float32")
    path = tmp_path / "command.wav"
    soundfile.write(path, np.concatenate((samples[: 2 * SAMPLE_RATE], np.zeros(SAMPLE_RATE, np.float32))), SAMPLE_RATE)
    return path


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_recording_is_played_to_whoever_asks_and_says_file(recording):
    async def ask(hearing, spontaneous):
        stages = []
        first = await hearing.utterance(lambda: stages.append("speech"))
        second = await hearing.utterance(lambda: None)
        assert first.source is second.source is Source.FILE
        assert 2 <= first.seconds <= 3.1 and first.samples.tolist() == second.samples.tolist()
        assert stages == ["speech"] and spontaneous == []
        assert hearing.ear.alive and hearing.ear.state == "file"

    asyncio.run(hear(recording, ask))


def test_silence_is_no_speech(tmp_path):
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros(3 * SAMPLE_RATE, np.float32), SAMPLE_RATE)

    async def ask(hearing, spontaneous):
        with pytest.raises(RequestError) as caught:
            await hearing.utterance(lambda: None)
        assert caught.value.fault is Fault.NO_SPEECH

    asyncio.run(hear(path, ask, start_timeout=1.0))


def test_a_cancelled_request_gives_the_ear_back(recording):
    async def ask(hearing, spontaneous):
        waiting = asyncio.create_task(hearing.utterance(lambda: None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await hearing.utterance(lambda: None)).seconds > 2

    asyncio.run(hear(recording, ask))


def test_what_was_said_for_one_request_answers_no_other(recording):
    async def ask(hearing, spontaneous):
        first = await hearing.utterance(lambda: None)
        waiting = asyncio.create_task(hearing.utterance(lambda: None))
        await asyncio.sleep(0)
        late = Heard(Waveform(first.samples[:16_000], first.source), Ending.SPEECH_ENDED, asked_for=True, began=0.0)
        hearing.heard(late)
        assert (await waiting).samples.tolist() == first.samples.tolist()
        assert spontaneous == []

    asyncio.run(hear(recording, ask))


def test_what_nobody_asked_for_is_spontaneous(recording, pipe):
    samples, _ = soundfile.read(recording, dtype="int16")

    async def ask(hearing, spontaneous):
        await asyncio.to_thread(pipe.write_bytes, samples.astype("<i2").tobytes())
        while not any(isinstance(told, Heard) for told in spontaneous):
            await asyncio.sleep(0.01)
        *_, candidate, heard = spontaneous[: [isinstance(told, Heard) for told in spontaneous].index(True) + 1]
        assert heard.waveform.source is Source.FILE and heard.waveform.seconds > 2
        assert candidate.waveform is heard.waveform and candidate.began == heard.began and not candidate.void.is_set()

    asyncio.run(hear(pipe, ask))


@pytest.fixture
def with_a_pause(speech, tmp_path):
    """Speech, half a second of silence, speech, and silence."""
    samples, _ = soundfile.read(speech, dtype="float32")
    pause = np.zeros(SAMPLE_RATE // 2, np.float32)
    path = tmp_path / "pause.wav"
    words = samples[: 2 * SAMPLE_RATE]
    soundfile.write(path, np.concatenate((words, pause, words, pause, pause)), SAMPLE_RATE)
    return path


def test_a_request_hears_in_advance_what_it_gets_and_of_resumed_speech_that_it_is_void(with_a_pause):
    async def ask(hearing, spontaneous):
        candidates = []
        waveform = await hearing.utterance(lambda: None, candidates.append)
        *void, last = candidates
        assert void and all(candidate.void.is_set() for candidate in void)
        assert last.waveform is waveform and last.asked_for and not last.void.is_set()
        assert 4 < waveform.seconds < 5 and spontaneous == []

    asyncio.run(hear(with_a_pause, ask))


def test_the_reading_thread_waits_for_nobody(recording):
    async def ask(hearing, spontaneous):
        delivered, went_on = threading.Event(), []
        deliver = hearing.heard

        def heard(told):
            delivered.set()
            deliver(told)

        hearing.heard = heard
        await hearing.utterance(lambda: None, lambda candidate: went_on.append(delivered.wait(30)))
        assert went_on[0], "the utterance came to its end while whoever hears of the candidate was at work"

    asyncio.run(hear(recording, ask))


async def offered(hearing, pipe, samples, candidates=None):
    """Say ``samples`` to a request; once it has a candidate: the request, the candidate, the pipe's other end."""
    candidates = [] if candidates is None else candidates
    waiting = asyncio.create_task(hearing.utterance(lambda: None, candidates.append))
    await asyncio.sleep(0)
    stream = await asyncio.to_thread(pipe.open, "wb", 0)
    await asyncio.to_thread(stream.write, samples.astype("<i2").tobytes())
    await said(candidates)
    return waiting, candidates[-1], stream


async def said(candidates):
    """Wait for the candidate with all of the two seconds: there is a pause within them."""
    while not candidates or candidates[-1].waveform.seconds < 2:
        await asyncio.sleep(0.01)


@pytest.fixture
def word(recording):
    """Two seconds of speech and 0.6 s of silence: a candidate, but no end."""
    return soundfile.read(recording, dtype="int16")[0][: round(2.6 * SAMPLE_RATE)]


def test_a_request_that_is_cancelled_voids_its_candidate_at_once(pipe, word):
    async def ask(hearing, spontaneous):
        waiting, candidate, stream = await offered(hearing, pipe, word)
        with stream:
            assert not candidate.void.is_set()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert candidate.void.is_set(), "although nothing more is heard"

    asyncio.run(hear(pipe, ask))


def test_a_candidate_of_one_request_is_none_of_another(pipe, word):
    async def ask(hearing, spontaneous):
        candidates = []
        waiting, candidate, stream = await offered(hearing, pipe, word, candidates)
        with stream:
            offers = len(candidates)
            hearing.candidate(Candidate(candidate.waveform, asked_for=True, began=0.0))
            hearing.candidate(Candidate(candidate.waveform, asked_for=False, began=0.0))
            await asyncio.sleep(0.1)
            assert len(candidates) == offers and spontaneous == []
            waiting.cancel()

    asyncio.run(hear(pipe, ask))


def test_what_nobody_asked_for_is_dropped_where_a_request_comes(pipe, word):
    async def ask(hearing, spontaneous):
        with await asyncio.to_thread(pipe.open, "wb", 0) as stream:
            await asyncio.to_thread(stream.write, word.astype("<i2").tobytes())
            await said(spontaneous)
            waiting, _, other = await offered(hearing, pipe, word)
            with other:
                candidate, dropped = spontaneous[-2:]
                assert candidate.void.is_set() and not candidate.asked_for and dropped == "dropped"
                waiting.cancel()

    asyncio.run(hear(pipe, ask))


def test_without_a_microphone_a_request_fails_at_once_and_its_state_is_told():
    async def run():
        events = []
        absent = Settings(capture=CaptureSettings(device="no microphone of this name 4711"))
        hearing = Hearing(
            absent,
            on_spontaneous=lambda heard: None,
            on_candidate=lambda candidate: None,
            on_dropped=lambda: None,
            on_microphone=events.append,
        )
        try:
            async with asyncio.timeout(60):
                waiting = asyncio.create_task(hearing.utterance(lambda: None))
                with pytest.raises(RequestError) as during:
                    await waiting
                with pytest.raises(RequestError) as after:
                    await hearing.utterance(lambda: None)
            assert during.value.fault is after.value.fault is Fault.MICROPHONE
            assert f"state '{hearing.ear.state}'" in str(after.value), "which status tells everybody, too"
            assert not hearing.ear.usable and hearing.ear.alive
            assert events and hearing.ear.state not in ("listening", "starting", "file")
        finally:
            hearing.close()

    asyncio.run(run())


def test_without_the_recording_it_does_not_start(tmp_path):
    async def ask(hearing, spontaneous):
        raise AssertionError("it started")

    with pytest.raises(AudioError, match="no such recording"):
        asyncio.run(hear(tmp_path / "none.wav", ask))


@pytest.mark.parametrize("kind", ["file", "voice"])
def test_a_folder_in_the_microphones_place_does_not_start(tmp_path, kind):
    async def ask(hearing, spontaneous):
        raise AssertionError("it started")

    with pytest.raises(AudioError, match="is a folder"):
        asyncio.run(hear(tmp_path, ask, kind=kind))
    with pytest.raises(AudioError, match="neither a recording nor a pipe"):
        asyncio.run(hear(Path("/dev/null"), ask, kind=kind))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_recording_that_others_keep_to_themselves_does_not_start(recording):
    recording.chmod(0)

    async def ask(hearing, spontaneous):
        raise AssertionError("it started")

    with pytest.raises(AudioError, match="Permission denied"):
        asyncio.run(hear(recording, ask))


def test_a_recording_that_is_none_is_no_microphone_until_another_lies_there(tmp_path, recording):
    path = tmp_path / "microphone.wav"
    path.write_bytes(b"no recording")

    async def ask(hearing, spontaneous):
        assert hearing.ear.state == "file"
        with pytest.raises(RequestError) as caught:
            await hearing.utterance(lambda: None)
        assert caught.value.fault is Fault.MICROPHONE
        assert hearing.ear.state == "unavailable" and "not readable as audio" in hearing.ear.problem
        with pytest.raises(RequestError):
            await hearing.utterance(lambda: None)
        recording.replace(path)
        while not hearing.ear.usable:
            await asyncio.sleep(0.02)
        assert hearing.ear.problem is None
        waveform = await hearing.utterance(lambda: None)
        assert waveform.source is Source.FILE

    asyncio.run(hear(path, ask))


def test_a_microphone_that_is_not_there_is_a_problem_for_people(recording):
    async def watch():
        event, event_of = asyncio.Event(), []
        hearing = Hearing(
            Settings(activation=ActivationSettings(kind="voice"), capture=CaptureSettings(device="no such microphone")),
            on_spontaneous=print,
            on_candidate=print,
            on_dropped=print,
            on_microphone=lambda changed: (event_of.append(changed), event.set()),
        )
        try:
            async with asyncio.timeout(60):
                await event.wait()
            assert hearing.ear.state in ("no_device", "unavailable")
            assert (
                hearing.ear.problem.startswith(f"microphone: {hearing.ear.state} (") and len(hearing.ear.problem) > 40
            )
        finally:
            hearing.close()
        assert hearing.ear.problem is None

    asyncio.run(watch())

    async def ask(hearing, spontaneous):
        assert hearing.ear.problem is None

    asyncio.run(hear(recording, ask))
