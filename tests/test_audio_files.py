"""Reading audio: every common format, rate and channel count, and every kind of bad file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceid.audio import read_waveform
from voiceid.audio.files import to_mono_16k
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Source


def tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> np.ndarray:
    return (0.25 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000, 192000])
@pytest.mark.parametrize(
    ("suffix", "subtype"), [("wav", "PCM_16"), ("wav", "FLOAT"), ("wav", "PCM_24"), ("flac", "PCM_16")]
)
def test_a_tone_keeps_its_frequency_and_level(tmp_path: Path, rate: int, suffix: str, subtype: str) -> None:
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, tone(rate), rate, subtype=subtype)
    wave = read_waveform(path)
    assert wave.source is Source.FILE
    assert wave.seconds == pytest.approx(0.5, abs=0.001)
    spectrum = np.abs(np.fft.rfft(wave.samples * np.hanning(len(wave.samples))))
    assert np.argmax(spectrum) * SAMPLE_RATE / len(wave.samples) == pytest.approx(440, abs=2)
    assert np.abs(wave.samples[800:-800]).max() == pytest.approx(0.25, abs=0.01)


def test_ogg_and_eight_channels_are_read(tmp_path: Path) -> None:
    ogg, eight = tmp_path / "a.ogg", tmp_path / "b.wav"
    soundfile.write(ogg, tone(16000), 16000)
    channels = np.zeros((8000, 8), np.float32)
    channels[:, 3] = tone(16000)
    soundfile.write(eight, channels, 16000, subtype="FLOAT")
    assert read_waveform(ogg).seconds == pytest.approx(0.5, abs=0.001)
    np.testing.assert_allclose(read_waveform(eight).samples, tone(16000) / 8, atol=1e-6)


def test_a_file_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.wav"
    soundfile.write(path, tone(16000, 1.0), 16000)
    path.write_bytes(path.read_bytes()[: 44 + 8000 * 2])
    assert len(read_waveform(path).samples) == 8000


@pytest.mark.parametrize("content", [b"", b"RIFF", b"not audio at all" * 100, b"\x00" * 5000])
def test_a_file_that_is_not_audio_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(AudioError, match=r"bad\.wav"):
        read_waveform(path)


def test_missing_empty_and_not_finite_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no such audio file"):
        read_waveform(tmp_path / "none.wav")
    with pytest.raises(AudioError, match="is a folder; name the recordings"):
        read_waveform(tmp_path)
    empty, nan = tmp_path / "empty.wav", tmp_path / "nan.wav"
    soundfile.write(empty, np.zeros(0, np.float32), 16000)
    with pytest.raises(AudioError, match="no samples"):
        read_waveform(empty)
    broken = tone(16000)
    broken[100] = np.nan
    soundfile.write(nan, broken, 16000, subtype="FLOAT")
    with pytest.raises(AudioError, match="NaN or infinite"):
        read_waveform(nan)


def test_an_hour_is_refused_without_decoding_it(tmp_path: Path) -> None:
    path = tmp_path / "hour.wav"
    soundfile.write(path, np.zeros(16, np.int16), 16000, subtype="PCM_16")
    frames = 3600 * 16000
    data = bytearray(path.read_bytes()[:44])
    data[4:8] = (36 + 2 * frames).to_bytes(4, "little")
    data[40:44] = (2 * frames).to_bytes(4, "little")
    with path.open("wb") as file:
        file.write(data)
        file.truncate(44 + 2 * frames)
    with pytest.raises(AudioError, match=r"3600 s long; cut it to at most 120 s"):
        read_waveform(path)


@pytest.mark.parametrize("rate", [1000, 400_000])
def test_an_impossible_rate_is_refused(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "odd.wav"
    soundfile.write(path, tone(rate), rate)
    with pytest.raises(AudioError, match=f"sample rate {rate} Hz"):
        read_waveform(path)


def test_float_audio_beyond_full_scale_is_kept() -> None:
    assert to_mono_16k(np.full(4, 2.0, np.float32), 16000).tolist() == [2.0] * 4


def test_a_small_file_that_decodes_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.flac"
    with soundfile.SoundFile(path, "w", 384_000, 8) as file:
        for _ in range(23):
            file.write(np.zeros((384_000, 8), np.float32))
    with pytest.raises(AudioError, match="8 channels at 384000 Hz"):
        read_waveform(path)
