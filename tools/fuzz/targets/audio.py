"""Reading recordings: headers and samples of WAV, FLAC and OGG, and what is made of them before any model sees it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import soundfile

from tools.fuzz.target import Target
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.service.protocol import RequestError
from voiceid.service.session import Claim

FORMATS = (("WAV", "PCM_16"), ("WAV", "FLOAT"), ("WAVEX", "PCM_24"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"))
FORMATS += (("OGG", "OPUS"), ("AIFF", "PCM_16"), ("W64", "DOUBLE"))


def make(folder: Path) -> Target:
    path = folder / "recording"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        try:
            waveform = read_waveform(path, max_seconds=20)
            if not np.isfinite(prepare(waveform).samples).all():
                raise AssertionError("samples that are not finite got through")
        except AudioError:
            pass
        claim = Claim(object(), "id", since=0.0, until=1.0, uid=0, used=0.0)
        try:
            claim.append(data, end=True)
            claim.take_recordings()
        except RequestError:
            return

    return Target(run, tuple(_recording(*kind) for kind in FORMATS), 16_384, ("RIFF", "WAVE", "fmt ", "data", "fLaC"))


def _recording(container: str, subtype: str) -> bytes:
    """A moment of a rising tone in two channels."""
    tone = 0.3 * np.sin(np.linspace(0, 75, 400) ** 1.1)
    stream = io.BytesIO()
    soundfile.write(stream, np.stack((tone, -tone / 2), 1), 16_000, format=container, subtype=subtype)
    return stream.getvalue()
