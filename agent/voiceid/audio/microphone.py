"""Finding a microphone, and recording one utterance from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from voiceid.activation.endpoint import UtteranceCollector
from voiceid.audio.device import Backend, Microphone, choose
from voiceid.audio.frames import Framer
from voiceid.audio.open_microphone import OpenMicrophone
from voiceid.audio.portaudio import PortAudioBackend
from voiceid.errors import AudioDeviceError
from voiceid.settings import ActivationSettings
from voiceid.types import Samples, Source, Waveform

MAX_SECONDS = 15.0
"""Longest recording."""
END_SILENCE = 1.0
"""Seconds without speech after which an utterance is over."""
BLOCK = 0.1
"""Seconds a block, and between two reports of progress."""


def list_microphones(backend: Backend | None = None) -> tuple[Microphone, ...]:
    """All input devices.

    Raises:
        AudioDeviceError: PortAudio is not installed or cannot be started.
    """
    return (backend or PortAudioBackend()).microphones()


def choose_microphone(name: str | None = None, backend: Backend | None = None) -> Microphone:
    """The default microphone, or the first that ``name`` fits: see :func:`voiceid.audio.device.choose`.

    Raises:
        AudioDeviceError: there is none.
    """
    return choose(list_microphones(backend), name)


def record_utterance(
    name: str | None = None,
    *,
    max_seconds: float = MAX_SECONDS,
    end_silence: float = END_SILENCE,
    on_progress: Callable[[float, float], None] | None = None,
    backend: Backend | None = None,
) -> Waveform:
    """Record until speech has been followed by ``end_silence`` seconds without any, at most ``max_seconds``.

    ``on_progress`` hears, after every block, the seconds recorded and the block's RMS. A device that does not take
    16 kHz or one channel is opened at its own rate and channels, down-mixed and resampled.

    Raises:
        AudioDeviceError: no PortAudio, no such device, a busy or lost device, or nothing but digital silence.
    """
    backend = backend or PortAudioBackend()
    microphone = choose_microphone(name, backend)
    ends = ActivationSettings(end_silence=end_silence, start_timeout=max_seconds, max_seconds=max_seconds)
    collector = UtteranceCollector(ends, Source.MICROPHONE)
    with OpenMicrophone(backend, microphone, block=BLOCK) as stream:
        waveform = _collect(stream, collector, on_progress)
    if not waveform.samples.any():
        raise AudioDeviceError(f"{microphone.name!r} delivers only digital silence; unmute it and allow access to it")
    return waveform


def _collect(
    stream: OpenMicrophone, collector: UtteranceCollector, on_progress: Callable[[float, float], None] | None
) -> Waveform:
    framer = Framer()
    while True:
        received = stream.read(BLOCK)
        if received is None:
            continue
        block, _ = received
        for frame in framer.push(block):
            if (waveform := collector.feed(frame)) is not None:
                return waveform
        if on_progress is not None:
            on_progress(collector.seconds, _rms(block))


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples)))) if samples.size else 0.0
