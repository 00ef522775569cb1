"""Reading audio files of any common format, rate and channel count as mono 16 kHz, and making WAV and FLAC files."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import numpy as np
import soundfile
import soxr

from voiceid.errors import AudioError
from voiceid.file_kind import FileKind, this_is
from voiceid.regular_file import open_regular, read_regular
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

MAX_SECONDS = 120.0
"""Longer files are refused before they are decoded: a command is seconds long."""
WRITABLE = {".wav": "WAV", ".flac": "FLAC"}
"""Format by suffix of what :func:`encode` makes."""
UNKNOWN_SIZE = 0x7FFF_0000
"""Bytes of audio from which on a header was written before anybody knew how long the audio would be."""
MAX_OTHER = 1 << 20
"""Bytes up to which it is looked at what else a file is that is no audio."""
MIN_RATE, MAX_RATE = 8_000, 384_000
MAX_CHANNELS = 32
MAX_VALUES = 2**26
"""Samples times channels, a quarter of a gigabyte: a small file of silence decodes to many."""


def read_waveform(path: Path | str, *, max_seconds: float = MAX_SECONDS) -> Waveform:
    """Decode ``path`` (WAV, FLAC, OGG, MP3, ...), average its channels and resample to 16 kHz.

    Raises:
        AudioError: the file is missing, not audio, truncated to nothing, longer than ``max_seconds``, or not finite.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise AudioError(f"{path}: is a folder; name the recordings, as {path}/*.wav")
        if not path.is_file():
            raise AudioError(f"{path}: {'not a file' if path.exists() else 'no such audio file'}")
    except OSError as error:  # as of a name that is too long to exist
        raise AudioError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            rate, channels, frames = file.samplerate, file.channels, file.frames
            if not MIN_RATE <= rate <= MAX_RATE:
                raise AudioError(f"{path}: sample rate {rate} Hz; use {MIN_RATE} to {MAX_RATE} Hz")
            if channels > MAX_CHANNELS:
                raise AudioError(f"{path}: {channels} channels; use at most {MAX_CHANNELS}")
            if frames > max_seconds * rate:
                raise AudioError(f"{path}: {frames / rate:.0f} s long; cut it to at most {max_seconds:.0f} s")
            if frames * channels > MAX_VALUES:
                raise AudioError(f"{path}: {channels} channels at {rate} Hz are too much to decode; convert it to mono")
            # A header may announce more than the file holds, or nothing: read what is there, bounded.
            samples = file.read(int(max_seconds * rate) + 1, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        raise AudioError(
            f"{path}: not readable as audio ({getattr(error, 'error_string', error)}); use WAV, FLAC, OGG or MP3"
            f"{_instead(path)}"
        ) from error
    return Waveform(to_mono_16k(samples, rate, name=str(path)), Source.FILE)


def promised_seconds(path: Path) -> float | None:
    """How long the header of the WAV file at ``path`` says it is, in seconds; None where that is not said.

    Raises:
        OSError: it cannot be read.
    """
    byte_rate = 0
    with open_regular(path) as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return None
        while len(chunk := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", chunk)
            if name == b"data":
                return size / byte_rate if byte_rate and size < UNKNOWN_SIZE else None
            if name == b"fmt " and size >= 16:
                _, _, _, byte_rate = struct.unpack("<HHII", file.read(12))
                size -= 12
            file.seek(size + size % 2, io.SEEK_CUR)
    return None


def _instead(path: Path) -> str:
    """What the file at ``path`` is in the place of a recording, where that is known."""
    try:
        return this_is(read_regular(path, MAX_OTHER), FileKind.RECORDING)
    except OSError:
        return ""


def to_mono_16k(samples: Samples, rate: int, *, name: str = "audio") -> Samples:
    """Average channels and resample: (n,) or (n, channels) at ``rate`` Hz to (m,) at 16 kHz, m = n * 16000 / rate.

    Raises:
        AudioError: no samples, or NaN or infinite samples.
    """
    mono = samples.mean(axis=1, dtype=np.float32) if samples.ndim == 2 else samples
    if mono.size == 0:
        raise AudioError(f"{name}: holds no samples")
    if not np.isfinite(mono).all():
        raise AudioError(f"{name}: holds samples that are NaN or infinite; export it again")
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    return np.ascontiguousarray(mono, dtype=np.float32)


def encode(samples: Samples, suffix: str) -> bytes:
    """An audio file of 16 bits, without loss: float32 (n,) at 16 kHz in [-1, 1]; ``suffix`` is one of WRITABLE."""
    stream = io.BytesIO()
    soundfile.write(stream, samples, SAMPLE_RATE, format=WRITABLE[suffix.lower()], subtype="PCM_16")
    return stream.getvalue()
