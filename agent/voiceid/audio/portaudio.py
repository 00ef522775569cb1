"""PortAudio as the sound system, through sounddevice; loaded only when somebody listens."""

from __future__ import annotations

from typing import Any

from voiceid.audio.device import Microphone, Receive
from voiceid.audio.holders import describe_holders
from voiceid.audio.permissions import ACCESS_ADVICE, forbidden_devices
from voiceid.errors import AudioDeviceError, DeviceAccessError, DeviceBusyError, NoDeviceError
from voiceid.types import SAMPLE_RATE, Samples

BUSY, INVALID_DEVICE = -9985, -9996
"""PortAudio's paDeviceUnavailable and paInvalidDevice."""


class PortAudioBackend:
    """The real sound system. PortAudio lists devices once, when it starts: :meth:`restart` makes it look again."""

    def restart(self) -> None:
        portaudio = _portaudio()
        try:
            if portaudio._initialized:
                portaudio._terminate()
            portaudio._initialize()
        except portaudio.PortAudioError as error:
            raise AudioDeviceError(f"PortAudio does not start ({error}); is a sound server running?") from error

    def microphones(self) -> tuple[Microphone, ...]:
        portaudio = _portaudio()
        try:
            devices, default = portaudio.query_devices(), portaudio.default.device[0]
        except portaudio.PortAudioError as error:
            raise AudioDeviceError(f"PortAudio cannot list devices ({error}); is a sound server running?") from error
        found = tuple(
            Microphone(index, str(d["name"]), d["max_input_channels"], round(d["default_samplerate"]), index == default)
            for index, d in enumerate(devices)
            if d["max_input_channels"] > 0
        )
        if not found and (forbidden := forbidden_devices()):
            raise DeviceAccessError(f"no right to use {forbidden[0]}; {ACCESS_ADVICE}")
        return found

    def open(self, microphone: Microphone, receive: Receive, *, block: float) -> PortAudioStream:
        return PortAudioStream(_portaudio(), microphone, receive, block)


class PortAudioStream:
    """One open device: 16 kHz mono if it takes that, else its own rate, else all its channels."""

    def __init__(self, portaudio: Any, microphone: Microphone, receive: Receive, block: float) -> None:
        self.rate, self.channels = _supported_format(portaudio, microphone)

        def pass_on(data: Samples, frames: int, time: Any, status: Any) -> None:
            receive(data.copy(), bool(status.input_overflow))

        stream = None
        try:
            stream = portaudio.InputStream(
                device=microphone.index,
                samplerate=self.rate,
                channels=self.channels,
                dtype="float32",
                blocksize=round(block * self.rate),
                callback=pass_on,
            )
            stream.start()
        except portaudio.PortAudioError as error:
            if stream is not None:
                stream.close()
            raise _translated(error, microphone) from error
        self._stream = stream

    @property
    def active(self) -> bool:
        return bool(self._stream.active)

    def close(self) -> None:
        self._stream.abort()
        self._stream.close()


def _supported_format(portaudio: Any, microphone: Microphone) -> tuple[int, int]:
    """Rate (Hz) and channels; the device's own where nothing simpler is taken."""
    own = microphone.rate, microphone.channels
    for rate, channels in ((SAMPLE_RATE, 1), (microphone.rate, 1), (SAMPLE_RATE, microphone.channels)):
        try:
            portaudio.check_input_settings(device=microphone.index, samplerate=rate, channels=channels, dtype="float32")
        except portaudio.PortAudioError:
            continue
        return rate, channels
    return own


def _translated(error: Any, microphone: Microphone) -> AudioDeviceError:
    code = error.args[1] if len(error.args) > 1 else 0
    name = repr(microphone.name)
    if code == BUSY:
        return DeviceBusyError(f"{name} cannot be opened: {describe_holders()}")
    if code == INVALID_DEVICE:
        return NoDeviceError(f"{name} is not there any more")
    if forbidden := forbidden_devices():
        return DeviceAccessError(f"{name} cannot be opened: no right to use {forbidden[0]}; {ACCESS_ADVICE}")
    return AudioDeviceError(f"{name} cannot be opened ({error}); is another program using it?")


def _portaudio() -> Any:
    try:
        import sounddevice
    except OSError as error:
        advice = "install it with 'sudo apt install libportaudio2', or give an audio file"
        raise AudioDeviceError(f"the PortAudio library is missing; {advice}") from error
    return sounddevice
