"""Channels: what lies between a mouth, or a synthesizer, and the model. Both classes go through the same ones.

If only genuine speech had passed a codec, or only synthetic speech had been resampled, a detector would learn the
codec or the resampler. Every function takes and gives float32 (n,) at 16 kHz and keeps the length.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import fftconvolve

from tools.train.data.corpus import Split, read_index
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE, Samples


@dataclass(frozen=True)
class Codec:
    """A lossy format of libsndfile; ``levels`` bounds its compression level (0 best, 1 smallest)."""

    container: str
    subtype: str
    levels: tuple[float, float]


OPUS_20K = Codec("OGG", "OPUS", (0.95, 0.95))
"""About 20 kbit/s, as most of the corpus is stored."""
VORBIS = Codec("OGG", "VORBIS", (0.4, 0.8))
"""As games and teaching programs keep their speech."""
OTHER_CODECS = (
    Codec("OGG", "OPUS", (0.6, 0.97)),
    Codec("OGG", "VORBIS", (0.2, 1.0)),
    Codec("MP3", "MPEG_LAYER_III", (0.0, 0.9)),
    Codec("MP3", "MPEG_LAYER_III", (0.0, 0.9)),
    Codec("WAV", "ULAW", (0.0, 0.0)),
    Codec("WAV", "IMA_ADPCM", (0.0, 0.0)),
    Codec("WAV", "MS_ADPCM", (0.0, 0.0)),
)

CLEAN = 0.5
"""Share of windows whose channel is the recording's own."""


def through_codec(samples: Samples, codec: Codec, random: np.random.Generator) -> Samples:
    """Encode and decode."""
    buffer = io.BytesIO()
    level = None if codec.container == "WAV" else float(random.uniform(*codec.levels))
    with soundfile.SoundFile(
        buffer, "w", SAMPLE_RATE, 1, format=codec.container, subtype=codec.subtype, compression_level=level
    ) as file:
        file.write(np.clip(samples, -1, 1))
    buffer.seek(0)
    decoded, _ = soundfile.read(buffer, dtype="float32")
    return _fit(decoded, len(samples))


def resampled(samples: Samples, random: np.random.Generator) -> Samples:
    """The history of another sample rate: through 22.05, 24, 32 or 44.1 kHz, seldom through 8 to 12 kHz."""
    wide = random.random() < 0.8
    rate = int(random.choice([22_050, 24_000, 32_000, 44_100] if wide else [8_000, 11_025, 12_000]))
    quality = str(random.choice(["QQ", "LQ", "MQ", "HQ", "VHQ"]))
    return _fit(soxr.resample(soxr.resample(samples, SAMPLE_RATE, rate), rate, SAMPLE_RATE, quality), len(samples))


def coloured(samples: Samples, random: np.random.Generator) -> Samples:
    """A microphone's response: a smooth random curve of +-6 dB, and now and then a low-pass or high-pass edge."""
    frequencies = np.linspace(0, SAMPLE_RATE / 2, len(samples) // 2 + 1)
    knots = random.uniform(-6, 6, 8)
    gain = 10 ** (np.interp(frequencies, np.linspace(0, SAMPLE_RATE / 2, 8), knots) / 20)
    if random.random() < 0.4:
        gain *= 1 / (1 + np.exp((frequencies - random.uniform(3_400, 7_900)) / random.uniform(10, 150)))
    if random.random() < 0.3:
        gain *= 1 / (1 + np.exp((random.uniform(40, 300) - frequencies) / random.uniform(10, 45)))
    return np.fft.irfft(np.fft.rfft(samples) * gain, len(samples)).astype(np.float32)


def reverberant(samples: Samples, random: np.random.Generator, split: Split) -> Samples:
    """A room: a recorded impulse response of ``split``, or decaying noise of 0.1 to 0.5 s behind a direct sound."""
    recorded = _recordings("rir", split)
    if random.random() < 0.5 and recorded:
        response = recorded[int(random.integers(len(recorded)))][:SAMPLE_RATE]
        response = response[max(0, int(np.abs(response).argmax()) - 16) :]
    else:
        length = int(random.uniform(0.1, 0.5) * SAMPLE_RATE)
        decay = np.exp(-6.9 * np.arange(length) / length)
        response = random.standard_normal(length) * decay * random.uniform(0.01, 0.1)
        response[0] = 1.0
    return fftconvolve(samples, response)[: len(samples)].astype(np.float32)


def noisy(samples: Samples, random: np.random.Generator, split: Split) -> Samples:
    """Recorded noise of ``split`` or coloured Gaussian noise, 10 to 45 dB below the speech."""
    recorded = _recordings("noise", split)
    if random.random() < 0.5 and recorded:
        source = recorded[int(random.integers(len(recorded)))]
        noise = np.resize(np.roll(source, int(random.integers(len(source)))), len(samples))
    else:
        white = np.fft.rfft(random.standard_normal(len(samples)))
        slope = np.arange(1, len(white) + 1) ** -random.uniform(0, 1)
        noise = np.fft.irfft(white * slope, len(samples))
    return mixed(samples, noise, float(random.uniform(10, 45)))


def mixed(samples: Samples, noise: NDArray[np.floating], snr_db: float) -> Samples:
    """``samples`` plus ``noise`` (n,), scaled to the signal-to-noise ratio."""
    scale = np.sqrt(np.mean(samples**2) / (np.mean(noise**2) + 1e-12)) * 10 ** (-snr_db / 20)
    return (samples + scale * noise).astype(np.float32)


def gated(samples: Samples, random: np.random.Generator) -> Samples:
    """A downward expander: pauses 10 to 40 dB quieter, as conference software and studio editing leave them."""
    level = np.sqrt(uniform_filter1d(samples**2, 800) + 1e-12)
    threshold = np.quantile(level, random.uniform(0.1, 0.35))
    floor = 10 ** (-random.uniform(10, 40) / 20)
    return (samples * uniform_filter1d(np.where(level < threshold, floor, 1.0), 800)).astype(np.float32)


def channel(samples: Samples, random: np.random.Generator, split: Split = "train") -> Samples:
    """A random chain of the above; every other one leaves ``samples`` as they are."""
    chain = samples
    if random.random() < CLEAN:
        return chain
    if random.random() < 0.25:
        chain = resampled(chain, random)
    if random.random() < 0.15:
        chain = gated(chain, random)
    if random.random() < 0.1:
        chain = reverberant(chain, random, split)
    if random.random() < 0.4:
        chain = coloured(chain, random)
    if random.random() < 0.2:
        chain = noisy(chain, random, split)
    return chain


def stored(samples: Samples, random: np.random.Generator, *, opus: float) -> Samples:
    """As a file leaves it: at a random level, with probability ``opus`` through the corpus's own codec, else seldom
    through another."""
    peak = float(np.abs(samples).max()) + 1e-9
    levelled = samples * np.float32(10 ** (random.uniform(-20, -1) / 20) / peak)
    draw = random.random()
    if draw < opus:
        return through_codec(levelled, OPUS_20K, random)
    if draw < opus + 0.15 * (1 - opus):
        return through_codec(levelled, OTHER_CODECS[int(random.integers(len(OTHER_CODECS)))], random)
    return levelled


@cache
def _recordings(kind: str, split: Split) -> tuple[Samples, ...]:
    items = [item for item in read_index() if item.kind == kind and item.split == split]
    return tuple(read_waveform(item.path).samples for item in items)


def _fit(samples: Samples, length: int) -> Samples:
    return np.pad(samples[:length], (0, max(0, length - len(samples)))).astype(np.float32)
