"""Augmentation of 16 kHz mono speech: noise, rooms, responses and codecs.

Every function takes and returns float32 (n,) of the same length, works at :data:`voiceid.types.SAMPLE_RATE`, draws
only from the :class:`numpy.random.Generator` it is given, and never changes its argument. Levels are the caller's
business: run the result through :func:`voiceid.audio.prepare`, as the agent does.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import ArrayLike, NDArray

from voiceid.types import SAMPLE_RATE, Samples

Floats = NDArray[np.float64]
Codec = Literal["opus", "vorbis", "mp3", "mulaw", "gsm"]
CODECS: tuple[Codec, ...] = ("opus", "vorbis", "mp3", "mulaw", "gsm")

SPEED_OF_SOUND = 343.0
EARLY_SECONDS = 0.06
"""Until here a room response is made of image sources, after it of diffuse noise."""
OVERSAMPLING = 4
"""Image sources are placed on a grid this much finer than a sample."""
BAND_EDGE_HZ = 1000.0
"""Where the two absorption bands of a room meet."""


def active_rms(samples: Samples) -> float:
    """RMS of the 20 ms frames within 30 dB of the loudest: the speech level without its pauses."""
    frame = SAMPLE_RATE // 50
    count = len(samples) // frame
    if count == 0:
        return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if len(samples) else 0.0
    power = np.square(samples[: count * frame].reshape(count, frame), dtype=np.float64).mean(axis=1)
    return float(np.sqrt(power[power >= power.max() * 1e-3].mean()))


def add_noise(samples: Samples, noise: Samples, snr_db: float, rng: np.random.Generator) -> Samples:
    """Add a random stretch of ``noise`` (any length; looped if short) ``snr_db`` below the active speech level."""
    if not len(noise):
        return samples.copy()
    start = int(rng.integers(0, max(1, len(noise) - len(samples) + 1)))
    stretch = np.resize(noise[start:], len(samples)).astype(np.float64)
    stretch -= stretch.mean() if stretch.size else 0.0
    power = float(np.mean(stretch**2)) if stretch.size else 0.0
    if power <= 0:
        return samples.copy()
    scale = active_rms(samples) / np.sqrt(power) * 10 ** (-snr_db / 20)
    return (samples + scale * stretch).astype(np.float32)


def coloured_noise(length: int, exponent: float, rng: np.random.Generator) -> Samples:
    """Gaussian noise of unit RMS with power falling as 1/f**exponent: 0 white, 1 pink, 2 brown, -1 blue."""
    size = 1 << max(length - 1, 1).bit_length()
    spectrum = np.fft.rfft(rng.standard_normal(size))
    frequency = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 20.0)
    noise = np.fft.irfft(spectrum * frequency ** (-exponent / 2), size)[:length]
    return (noise / max(float(np.sqrt(np.mean(noise**2))), 1e-12)).astype(np.float32)


def convolve(samples: Samples, response: ArrayLike) -> Samples:
    """Filter with an impulse response, aligned so that its strongest tap causes no delay; the tail is cut.

    The response is scaled to unit energy, which keeps white noise at its level.
    """
    taps = np.asarray(response, dtype=np.float64)
    energy = float(np.sqrt(np.sum(taps**2)))
    if energy <= 0:
        raise ValueError("an impulse response of zeros would silence the audio")
    size = len(samples) + len(taps) - 1
    fft = 1 << (size - 1).bit_length()
    out: Floats = np.fft.irfft(np.fft.rfft(samples, fft) * np.fft.rfft(taps / energy, fft), fft)
    delay = int(np.argmax(np.abs(taps)))
    return out[delay : delay + len(samples)].astype(np.float32)


@dataclass(frozen=True, slots=True)
class Room:
    """A shoebox room: ``size``, ``source`` and ``microphone`` in metres (x, y, z).

    ``rt60`` is the reverberation time in seconds below and above :data:`BAND_EDGE_HZ`.
    """

    size: tuple[float, float, float]
    source: tuple[float, float, float]
    microphone: tuple[float, float, float]
    rt60: tuple[float, float]

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(np.subtract(self.source, self.microphone)))


def random_room(
    rng: np.random.Generator,
    *,
    volume: tuple[float, float] = (15.0, 200.0),
    rt60: tuple[float, float] = (0.15, 0.8),
    distance: tuple[float, float] = (0.2, 3.0),
) -> Room:
    """Draw a room: volume (m³) and distance (m) log-uniform, RT60 (s) uniform and 0.5 to 1 times that at the top."""
    cubic = np.exp(rng.uniform(*np.log(volume)))
    height = float(np.clip(rng.normal(2.6, 0.2), 2.2, 4.0))
    aspect = rng.uniform(1.0, 1.9)
    width = float(np.sqrt(cubic / height / aspect))
    size = np.array([width * aspect, width, height])
    low = float(rng.uniform(*rt60))
    microphone = size * rng.uniform(0.15, 0.85, 3)
    far = float(np.exp(rng.uniform(*np.log(distance))))
    for _ in range(200):
        direction = rng.standard_normal(3) * (1, 1, 0.3)
        source = microphone + far * direction / np.linalg.norm(direction)
        if (source > 0.1).all() and (source < size - 0.1).all():
            break
        far *= 0.98
    else:
        source = size / 2
    points = [(float(p[0]), float(p[1]), float(p[2])) for p in (size, source, microphone)]
    return Room(points[0], points[1], points[2], (low, low * float(rng.uniform(0.5, 1.0))))


def room_response(room: Room, rng: np.random.Generator) -> Samples:
    """Impulse response of ``room``, strongest at the direct sound: float32 (n,), n = 1.1 * RT60 and at least 0.1 s.

    Image sources (Allen and Berkley, JASA 1979) in two absorption bands up to :data:`EARLY_SECONDS`, each displaced by
    up to 5 cm so that perfect walls do not ring; then exponentially decaying diffuse noise that continues the level.
    """
    length = max(int(1.1 * max(room.rt60) * SAMPLE_RATE), SAMPLE_RATE // 10)
    early = int(EARLY_SECONDS * SAMPLE_RATE) + int(room.distance / SPEED_OF_SOUND * SAMPLE_RATE)
    length = max(length, early + 1)
    distance, order = _images(room, early / SAMPLE_RATE * SPEED_OF_SOUND, rng)
    position = np.round(distance / SPEED_OF_SOUND * SAMPLE_RATE * OVERSAMPLING).astype(np.int64)
    bands = []
    for rt60 in room.rt60:
        amplitude = _reflection(room, rt60) ** order / distance
        fine = np.bincount(position, amplitude, minlength=early * OVERSAMPLING)[: early * OVERSAMPLING]
        head = soxr.resample(fine * OVERSAMPLING, SAMPLE_RATE * OVERSAMPLING, SAMPLE_RATE)[:early]
        seam = head[-early // 4 :]
        level = np.sqrt(np.mean(seam**2)) * np.exp(-6.9078 * len(seam) / 2 / SAMPLE_RATE / rt60)
        seconds = np.arange(length - early) / SAMPLE_RATE
        tail = level * np.exp(-6.9078 * seconds / rt60) * rng.standard_normal(length - early)
        bands.append(np.concatenate((head, tail)))
    fft = 1 << (2 * length - 1).bit_length()
    frequency = np.fft.rfftfreq(fft, 1 / SAMPLE_RATE)
    lower = 1 / (1 + (frequency / BAND_EDGE_HZ) ** 4)
    spectrum = np.fft.rfft(bands[0], fft) * lower + np.fft.rfft(bands[1], fft) * (1 - lower)
    response = np.fft.irfft(spectrum, fft)[:length]
    direct = int(room.distance / SPEED_OF_SOUND * SAMPLE_RATE)
    return response[max(0, direct - 16) :].astype(np.float32)


def _images(room: Room, reach: float, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Distances (m) of the image sources within ``reach`` and their numbers of reflections; the true source first."""
    size, source, microphone = (np.array(p) for p in (room.size, room.source, room.microphone))
    axes: list[Floats] = []
    orders: list[NDArray[np.int64]] = []
    for axis in range(3):
        count = int(np.ceil(reach / (2 * size[axis]))) + 1
        n = np.repeat(np.arange(-count, count + 1), 2)
        mirrored = np.tile([0, 1], 2 * count + 1)
        axes.append((1 - 2 * mirrored) * source[axis] + 2 * n * size[axis] - microphone[axis])
        orders.append(np.abs(2 * n - mirrored))
    squared = axes[0][:, None, None] ** 2 + axes[1][None, :, None] ** 2 + axes[2][None, None, :] ** 2
    order = orders[0][:, None, None] + orders[1][None, :, None] + orders[2][None, None, :]
    within = squared < reach**2
    distance, order = np.sqrt(squared[within]), order[within]
    jitter = np.where(order > 0, rng.uniform(-0.05, 0.05, distance.size), 0.0)
    return np.maximum(distance + jitter, 0.02), order


def _reflection(room: Room, rt60: float) -> float:
    """Reflection coefficient of all walls that gives ``rt60`` (Eyring)."""
    x, y, z = room.size
    surface = 2 * (x * y + y * z + x * z)
    absorption = 1 - np.exp(-0.161 * x * y * z / (surface * rt60))
    return float(np.sqrt(1 - min(absorption, 0.99)))


def response_filter(frequencies: ArrayLike, gains_db: ArrayLike, *, taps: int = 512) -> Floats:
    """Minimum-phase FIR (taps,) whose magnitude follows ``gains_db`` at ``frequencies`` (Hz, ascending, > 0).

    Between the points the gain is linear in dB over log frequency, beyond them constant; gains below -80 dB are raised
    to that. By the folded cepstrum (Oppenheim and Schafer, Discrete-Time Signal Processing, chapter 13).
    """
    size = 8 * taps
    grid = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 1.0)
    gain = np.interp(np.log(grid), np.log(np.asarray(frequencies, dtype=np.float64)), np.asarray(gains_db, np.float64))
    cepstrum = np.fft.irfft(np.maximum(gain, -80.0) / 20 * np.log(10), size)
    cepstrum[1 : size // 2] *= 2
    cepstrum[size // 2 + 1 :] = 0
    response: Floats = np.fft.irfft(np.exp(np.fft.rfft(cepstrum, size)), size)[:taps]
    fade = taps // 8
    response[-fade:] *= 0.5 * (1 + np.cos(np.pi * np.arange(1, fade + 1) / fade))
    return response


def band_gains(
    frequencies: Floats, low: float, high: float, *, low_slope: float = 12.0, high_slope: float = 24.0
) -> Floats:
    """Gains (dB) of a band-pass from ``low`` to ``high`` Hz with Butterworth-like slopes in dB per octave."""
    below = -10 * np.log10(1 + (low / frequencies) ** (low_slope / 3.0103))
    above = -10 * np.log10(1 + (frequencies / high) ** (high_slope / 3.0103))
    return below + above


def band_limit(samples: Samples, low: float, high: float) -> Samples:
    """Limit to ``low``..``high`` Hz (-3 dB) with slopes of 24 and 48 dB per octave, minimum phase."""
    grid = np.geomspace(10.0, SAMPLE_RATE / 2, 256)
    taps = response_filter(grid, band_gains(grid, low, high, low_slope=24.0, high_slope=48.0), taps=1024)
    return apply_response(samples, taps)


def microphone_response(rng: np.random.Generator) -> Floats:
    """FIR of a random microphone: low cut at 20 to 250 Hz, tilt, presence peak or dip, ripple; (512,)."""
    grid = np.geomspace(20.0, SAMPLE_RATE / 2, 128)
    octave = np.log2(grid / 1000)
    gains = band_gains(grid, float(np.exp(rng.uniform(*np.log((20, 250))))), 1e5, low_slope=rng.choice([6.0, 12.0]))
    gains += rng.uniform(-1.0, 1.0) * octave
    gains += rng.uniform(-3, 6) * np.exp(-(((octave - rng.uniform(1, 2.8)) / rng.uniform(0.3, 0.8)) ** 2))
    for _ in range(3):
        gains += rng.normal(0, 1.0) * np.exp(-(((octave - rng.uniform(-3, 3)) / rng.uniform(0.1, 0.5)) ** 2))
    return response_filter(grid, gains)


def apply_response(samples: Samples, taps: ArrayLike) -> Samples:
    """Causal FIR filtering (not normalised, not aligned); the tail is cut."""
    fir = np.asarray(taps, dtype=np.float64)
    fft = 1 << (len(samples) + len(fir) - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(samples, fft) * np.fft.rfft(fir, fft), fft)[: len(samples)].astype(np.float32)


def random_gain(samples: Samples, low_db: float, high_db: float, rng: np.random.Generator) -> Samples:
    """Multiply by a gain drawn uniformly in dB."""
    return (samples * 10 ** (rng.uniform(low_db, high_db) / 20)).astype(np.float32)


def change_speed(samples: Samples, factor: float) -> Samples:
    """Play ``factor`` times faster (pitch moves too); the one function that changes the length, to n / factor."""
    return np.asarray(soxr.resample(samples, SAMPLE_RATE * factor, SAMPLE_RATE), dtype=np.float32)


def resample_round_trip(samples: Samples, rate: int) -> Samples:
    """To ``rate`` Hz and back: the history of a file that was stored at another rate."""
    return _fit(soxr.resample(soxr.resample(samples, SAMPLE_RATE, rate), rate, SAMPLE_RATE), len(samples))


_CONTAINERS: dict[str, tuple[str, str, int]] = {
    "opus": ("OGG", "OPUS", 16_000),
    "vorbis": ("OGG", "VORBIS", 16_000),
    "mp3": ("MP3", "MPEG_LAYER_III", 16_000),
    "gsm": ("WAV", "GSM610", 8_000),
    "mulaw": ("WAV", "ULAW", 8_000),
}


def codec_round_trip(samples: Samples, codec: Codec, *, compression: float = 0.7) -> Samples:
    """Encode and decode through libsndfile, peaks limited to full scale.

    ``compression`` in 0..1 (libsndfile's scale; for Opus 1 is 6 kbit/s and 0 is 256) holds for opus, vorbis and mp3.
    mulaw and gsm run at 8 kHz.

    Raises:
        ValueError: this build of libsndfile lacks ``codec``; see :func:`available_codecs`.
    """
    container, subtype, rate = _CONTAINERS[codec]
    if not soundfile.check_format(container, subtype):
        raise ValueError(f"libsndfile {soundfile.__libsndfile_version__} cannot write {codec}")
    data = samples if rate == SAMPLE_RATE else soxr.resample(samples, SAMPLE_RATE, rate)
    options: dict[str, Any] = {"compression_level": compression} if rate == SAMPLE_RATE else {}
    buffer = io.BytesIO()
    soundfile.write(buffer, np.clip(data, -1, 1), rate, format=container, subtype=subtype, **options)
    buffer.seek(0)
    decoded, decoded_rate = soundfile.read(buffer, dtype="float32")
    if decoded_rate != SAMPLE_RATE:
        decoded = soxr.resample(decoded, decoded_rate, SAMPLE_RATE)
    return _fit(decoded, len(samples))


def available_codecs() -> tuple[Codec, ...]:
    """The codecs that this build of libsndfile writes."""
    return tuple(c for c in CODECS if soundfile.check_format(*_CONTAINERS[c][:2]))


def random_codec(samples: Samples, rng: np.random.Generator, codecs: tuple[Codec, ...] | None = None) -> Samples:
    """A round trip through a random one of ``codecs`` (default: the wide-band ones of this build)."""
    wide = codecs or tuple(c for c in available_codecs() if _CONTAINERS[c][2] == SAMPLE_RATE)
    return codec_round_trip(samples, wide[int(rng.integers(len(wide)))], compression=float(rng.uniform(0.3, 0.95)))


def _fit(samples: NDArray[Any], length: int) -> Samples:
    """Cut or zero-pad at the end."""
    fitted = np.zeros(length, dtype=np.float32)
    fitted[: min(length, len(samples))] = samples[:length]
    return fitted
