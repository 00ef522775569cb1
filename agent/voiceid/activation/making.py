"""From the settings to what they name."""

from __future__ import annotations

from collections.abc import Callable

from voiceid.activation.activation import Activation
from voiceid.activation.engines import make_engine
from voiceid.activation.file import FileActivation
from voiceid.activation.push_to_talk import PushToTalk
from voiceid.activation.voice import VoiceActivation
from voiceid.activation.wake_word import WakeWord
from voiceid.audio.capture import Capture
from voiceid.audio.capture_state import CaptureEvent
from voiceid.audio.file_source import FileSource
from voiceid.audio.frames import FrameSource
from voiceid.errors import SettingsError
from voiceid.settings import ActivationSettings, CaptureSettings


def make_activation(settings: ActivationSettings) -> Activation:
    """The activation of the kind that ``settings`` name.

    Raises:
        MissingPackageError: the wake word engine is not installed.
        SettingsError: the engine does not know the wake word.
    """
    if settings.kind == "wake_word":
        engine = make_engine(settings.engine, settings.wake_word)
        return WakeWord(engine, settings.wake_word, threshold=settings.wake_threshold)
    if settings.kind == "voice":
        return VoiceActivation()
    return PushToTalk() if settings.kind == "push_to_talk" else FileActivation()


def open_source(
    capture: CaptureSettings, activation: ActivationSettings, *, on_event: Callable[[CaptureEvent], None] | None = None
) -> FrameSource:
    """The recording or pipe that ``activation`` names, whatever its kind, else the microphone.

    Raises:
        SettingsError: no recording is named.
        AudioError: there is no such recording.
    """
    if activation.file is not None:
        return FileSource(activation.file, history=capture.history)
    if activation.kind == "file":
        raise SettingsError("activation: kind 'file' needs file, the recording that takes the microphone's place")
    return Capture(capture, on_event=on_event)
