"""Recording one utterance from a microphone; PortAudio is loaded only when somebody records."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr

from voiceid.audio.vad import speech_segments
from voiceid.errors import AudioDeviceError
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

MAX_SECONDS = 15.0
"""Longest recording."""
END_SILENCE = 1.0
"""Seconds without speech after which an utterance is over."""
MIN_SPEECH = 0.3
"""Seconds of speech that make an utterance; less is a cough, and the recording goes on."""
WAIT = 5.0
"""Seconds without a single block after which a device counts as lost."""
BLOCK = 0.1
"""Seconds a block."""


@dataclass(frozen=True, slots=True)
class Microphone:
    """An input device as PortAudio names it."""

    index: int
    name: str
    channels: int
    rate: int
    """The device's own sample rate (Hz)."""
    default: bool


def list_microphones() -> tuple[Microphone, ...]:
    """All input devices.

    Raises:
        AudioDeviceError: PortAudio is not installed or cannot be started.
    """
    portaudio = _portaudio()
    try:
        devices, default = portaudio.query_devices(), portaudio.default.device[0]
    except portaudio.PortAudioError as error:
        raise AudioDeviceError(f"PortAudio cannot list devices ({error}); is a sound server running?") from error
    return tuple(
        Microphone(index, str(d["name"]), d["max_input_channels"], round(d["default_samplerate"]), index == default)
        for index, d in enumerate(devices)
        if d["max_input_channels"] > 0
    )


def choose_microphone(name: str | None = None) -> Microphone:
    """The default microphone, or the first whose name contains ``name`` (any case): indices change when USB does.

    Raises:
        AudioDeviceError: there is none.
    """
    found = list_microphones()
    if not found:
        raise AudioDeviceError("no microphone found; connect one, or start the sound server, or give an audio file")
    if name is None:
        return next((m for m in found if m.default), found[0])
    for microphone in found:
        if name.casefold() in microphone.name.casefold():
            return microphone
    names = ", ".join(repr(m.name) for m in found)
    raise AudioDeviceError(f"no microphone is named like {name!r}; there are: {names}")


def record_utterance(
    name: str | None = None,
    *,
    max_seconds: float = MAX_SECONDS,
    end_silence: float = END_SILENCE,
    on_progress: Callable[[float, float], None] | None = None,
) -> Waveform:
    """Record until speech has been followed by ``end_silence`` seconds without any, at most ``max_seconds``.

    ``on_progress`` hears, after every block, the seconds recorded and the block's RMS. A device that does not take
    16 kHz is opened at its own rate and resampled.

    Raises:
        AudioDeviceError: no PortAudio, no such device, a busy or lost device, or nothing but digital silence.
    """
    microphone = choose_microphone(name)
    portaudio = _portaudio()
    rate = _supported_rate(portaudio, microphone)
    resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32") if rate != SAMPLE_RATE else None
    blocks: queue.SimpleQueue[Samples] = queue.SimpleQueue()

    def receive(data: Samples, frames: int, time: Any, status: Any) -> None:
        blocks.put(data[:, 0].copy())

    recorded = np.zeros(0, np.float32)
    try:
        with portaudio.InputStream(
            device=microphone.index,
            samplerate=rate,
            channels=1,
            dtype="float32",
            blocksize=round(BLOCK * rate),
            callback=receive,
        ):
            while len(recorded) < max_seconds * SAMPLE_RATE and not _is_over(recorded, end_silence):
                block = blocks.get(timeout=WAIT)
                block = block if resampler is None else resampler.resample_chunk(block)
                recorded = np.concatenate((recorded, block))
                if on_progress is not None:
                    rms = float(np.sqrt(np.mean(np.square(block)))) if block.size else 0.0
                    on_progress(len(recorded) / SAMPLE_RATE, rms)
    except queue.Empty:
        raise AudioDeviceError(f"{microphone.name!r} delivers no audio; was it unplugged or suspended?") from None
    except portaudio.PortAudioError as error:
        raise AudioDeviceError(
            f"{microphone.name!r} cannot be opened ({error}); is another program using it?"
        ) from error
    if not recorded.any():
        raise AudioDeviceError(f"{microphone.name!r} delivers only digital silence; unmute it and allow access to it")
    return Waveform(recorded, Source.MICROPHONE)


def _is_over(samples: Samples, end_silence: float) -> bool:
    speech = speech_segments(samples)
    enough = sum(segment.seconds for segment in speech) >= MIN_SPEECH
    return enough and len(samples) / SAMPLE_RATE - speech[-1].end >= end_silence


def _supported_rate(portaudio: Any, microphone: Microphone) -> int:
    try:
        portaudio.check_input_settings(device=microphone.index, samplerate=SAMPLE_RATE, channels=1, dtype="float32")
    except portaudio.PortAudioError:
        return microphone.rate
    return SAMPLE_RATE


def _portaudio() -> Any:
    try:
        import sounddevice
    except OSError as error:
        advice = "install it with 'sudo apt install libportaudio2', or give an audio file"
        raise AudioDeviceError(f"the PortAudio library is missing; {advice}") from error
    return sounddevice
