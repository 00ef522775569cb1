"""The daemon as a process that listens: spontaneous utterances, decisions in advance, requests that are cancelled."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import soundfile

from tests.system.daemon_helpers import RP, Running, say
from tests.wait_helpers import until
from voiceid.activation import UtteranceCollector
from voiceid.audio import read_waveform
from voiceid.audio.vad import FRAME
from voiceid.errors import ServiceError
from voiceid.relying_party import verify, verify_registration
from voiceid.service.wire import from_base64
from voiceid.settings import ActivationSettings
from voiceid.types import Source


def test_the_ear_hears_what_lies_before_the_microphone(enrolled: Running, command: Path) -> None:
    wave = read_waveform(command)
    soundfile.write(enrolled.recording, wave.samples, 16_000)
    stages = []
    with enrolled.client() as client:
        result = client.call(
            "verify",
            lambda name, params: stages.append(params["stage"]),
            user="ada",
            purpose="a test",
            challenge=bytes(16),
        )
    assert result["answer"] in ("accepted", "denied") and result["detail"]["quality"]["net_speech"] > 1
    assert stages == ["listening", "speech", "judging"]
    with enrolled.client() as client:
        client.call("lockout.reset", user="ada")


@contextlib.contextmanager
def pipe_before(running: Running) -> Iterator[Path]:
    """A pipe in the place of the recording that stands for the microphone."""
    running.recording.unlink()
    os.mkfifo(running.recording)
    try:
        yield running.recording
    finally:
        descriptor = os.open(running.recording, os.O_WRONLY)
        running.recording.unlink()
        running.recording.write_bytes(b"")
        os.close(descriptor)


def test_a_spontaneous_utterance_is_signed_for_whoever_holds_an_armed_claim(enrolled: Running, command: Path) -> None:
    pcm = (read_waveform(command).samples * 32767).astype("<i2").tobytes() + bytes(2 * 16_000)
    nonce = secrets.token_bytes(32)
    with enrolled.client() as client, enrolled.client() as other, pipe_before(enrolled) as pipe:
        registered = say(client, command, "credentials.register", user="ada", relying_party=RP, challenge=nonce)
        registration = verify_registration(registered["registration"], expected_challenge=nonce, expected_rp_id=RP)
        other.call("subscribe")
        pipe.write_bytes(pcm)
        name, event = other.listen()
        assert name == "event" and event["kind"] == "decision", "without a claim only admins hear of it"
        assert client.call("lockout.show", user="ada")["failures"] == 0, "and it does not count"
        claim = client.call("claim", relying_party=RP, purpose="pay 10", nonce=nonce)["claim"]
        pipe.write_bytes(pcm)
        name, params = client.listen()
        assert name == "utterance" and params["claim"] == claim
        assert params["answer"] == "accepted" and params["user"] == "ada" and params["source"] == "file"
        envelope = from_base64(params["envelope"])
        asked = {"registration": registration, "expected_nonce": nonce, "expected_rp_id": RP}
        assert verify(envelope, **asked, expected_purpose="pay 10", allow_file=True).units
        assert client.listen() == ("claim.ended", {"claim": claim, "reason": "used"})
        assert not client.call("status")["busy"], "a nonce is used once"
        client.call("credentials.revoke", user="ada", credential_id=registration.credential_id)


def pcm_of(*parts: np.ndarray) -> bytes:
    return (np.concatenate(parts) * 32767).astype("<i2").tobytes()


@contextlib.contextmanager
def speaking(running: Running) -> Iterator[BinaryIO]:
    """The end of a pipe that stands for the microphone."""
    with pipe_before(running) as pipe, pipe.open("wb", 0) as end:
        yield end


def a_word_of(file: Path) -> bytes:
    """Speech up to a pause that is long enough for a candidate but not for the end."""
    wave = np.concatenate((read_waveform(file).samples[: 2 * 16_000], np.zeros(16_000, np.float32)))
    collector, end = UtteranceCollector(ActivationSettings(), Source.FILE), 0
    while collector.candidate is None:
        collector.feed(wave[end : end + FRAME])
        end += FRAME
    return pcm_of(wave[: end + 2 * FRAME])


def unread(end: BinaryIO) -> int:
    """Bytes in the pipe that nobody took yet."""
    return int.from_bytes(fcntl.ioctl(end, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_it_decides_before_the_end_is_certain_and_says_so_to_admins_only_then(enrolled: Running, command: Path) -> None:
    told: list[str] = []
    events: list[dict] = []
    wave = read_waveform(command).samples

    def hear(name: str, params: dict) -> None:
        events.append(params)

    with enrolled.client() as client, enrolled.client() as other, speaking(enrolled) as end:
        other.call("subscribe")

        def speak(name: str, params: dict) -> None:
            told.append(params["stage"])
            if params["stage"] == "listening":
                end.write(a_word_of(command))
            if params["stage"] == "speech":
                until(lambda: other.call("lockout.show", hear, user="ada")["failures"] == 1)
                assert events == [], "charged, but nothing is told of what may not have been all"
                end.write(pcm_of(wave[8_000:], np.zeros(16_000, np.float32)))

        before = enrolled.said().count("decision=")
        result = client.call("verify", speak, user="ada", purpose="a test", challenge=bytes(16))
        assert result["detail"]["early"]
        assert result["detail"]["quality"]["net_speech"] > 2, "the last candidate is the whole"
        assert told == ["listening", "speech", "judging"]
        other.call("status", hear)
        assert [event["detail"]["decision"] for event in events] == [result["decision"]]
        assert enrolled.said().count("decision=") == before + 1
        client.call("lockout.reset", user="ada")


def test_a_request_that_is_cancelled_after_a_candidate_is_no_free_try(enrolled: Running, command: Path) -> None:
    events: list[dict] = []

    def hear(name: str, params: dict) -> None:
        events.append(params)

    with enrolled.client() as other, speaking(enrolled) as end:
        other.call("subscribe")
        before = enrolled.said().count("ceremony=verify")
        with enrolled.client() as client:

            def speak(name: str, params: dict) -> None:
                if params["stage"] == "listening":
                    end.write(a_word_of(command))
                if params["stage"] == "speech":
                    until(lambda: unread(end) == 0)
                    until(lambda: other.call("lockout.show", user="ada")["failures"] == 1)
                    raise ConnectionError

            with pytest.raises(ServiceError):
                client.call("verify", speak, user="ada", purpose="a test", challenge=bytes(16))
        until(lambda: not other.call("status", hear)["busy"])
        assert other.call("lockout.show", user="ada")["failures"] == 1, "although the voice was hers"
        # What is left of the word can be heard as a word of its own, of nobody's request.
        assert enrolled.said().count("ceremony=verify") == before
        assert all(event["state"] != "accepted" for event in events if event["kind"] == "decision")
        other.call("lockout.reset", user="ada")
