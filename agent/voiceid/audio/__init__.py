"""From a file or microphone to one level-normalised, trimmed utterance."""

from voiceid.audio.files import read_waveform
from voiceid.audio.utterance import prepare

__all__ = ["prepare", "read_waveform"]
