"""Replay by physical simulation, and live speech through the same rooms and microphones.

    live:    speech ------------------------------------> room -> microphone -> noise -> codec
    replay:  speech -> stolen recording -> loudspeaker --> room -> microphone -> noise -> codec

The two differ in the loudspeaker and in how the speech was stolen (a room, some noise, a codec); rooms, distances,
microphones, noises and codecs of the capture come from the same draws, so that none of them tells the classes apart.
Families of loudspeakers, rooms and microphones belong to one split each. What no simulation here holds: the talker's
own directivity, breath and pop noise, the cabinet's vibration, and loudspeakers that are linear down to 20 Hz.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import soxr
from numpy.typing import NDArray

from tools.train.data import augment
from tools.train.data.corpus import TRAIN_LICENCES, Item, Split
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE, Samples

Floats = NDArray[np.float64]
Range = tuple[float, float]
T = TypeVar("T")

GRID = np.geomspace(20.0, SAMPLE_RATE / 2, 160)


@dataclass(frozen=True, slots=True)
class LoudspeakerFamily:
    """Ranges (Hz, dB) from which loudspeakers of one make are drawn."""

    name: str
    split: Split
    low_cut: Range
    low_slopes: tuple[float, ...]
    """dB per octave below the low cut."""
    port_db: Range
    """Gain of the resonance at the low cut."""
    high_cut: Range
    ripple_db: float
    """Standard deviation of each of eight resonances and notches."""
    drive_db: Range
    """Speech level in dB relative to the level where the non-linearity is as large as the signal."""
    limiter: Range
    """Compression ratio of the amplifier's limiter; 1 is none."""


@dataclass(frozen=True, slots=True)
class RoomFamily:
    """Ranges of volume (m³), RT60 (s) and distance (m)."""

    name: str
    split: Split
    volume: Range
    rt60: Range
    distance: Range


@dataclass(frozen=True, slots=True)
class MicrophoneFamily:
    """Ranges of low cut (Hz), tilt (dB per octave), presence peak (Hz, dB) and self-noise (dB below speech)."""

    name: str
    split: Split
    low_cut: Range
    low_slopes: tuple[float, ...]
    tilt: Range
    presence_hz: Range
    presence_db: Range
    noise_db: Range


LOUDSPEAKERS = (
    LoudspeakerFamily("phone", "train", (350, 900), (12, 18, 24), (-2, 4), (5500, 12000), 3.0, (-22, -6), (1, 4)),
    LoudspeakerFamily("laptop", "train", (180, 450), (12, 18, 24), (-2, 4), (7000, 14000), 2.5, (-26, -10), (1, 3)),
    LoudspeakerFamily("bluetooth", "train", (80, 200), (18, 24), (0, 6), (7000, 16000), 2.0, (-26, -10), (1, 4)),
    LoudspeakerFamily("desktop", "train", (90, 220), (12, 24), (0, 4), (7000, 18000), 2.0, (-30, -14), (1, 1.5)),
    LoudspeakerFamily("radio", "train", (150, 350), (6, 12), (0, 5), (3500, 6500), 3.0, (-22, -8), (1, 2)),
    LoudspeakerFamily("monitor", "train", (40, 80), (12, 24), (0, 2), (16000, 22000), 1.0, (-40, -24), (1, 1)),
    LoudspeakerFamily("tablet", "dev", (250, 600), (12, 24), (-2, 4), (6500, 13000), 2.5, (-24, -8), (1, 3)),
    LoudspeakerFamily("television", "dev", (80, 200), (12, 18, 24), (0, 4), (8000, 16000), 2.0, (-30, -12), (1, 2)),
    LoudspeakerFamily("earpiece", "test", (400, 1000), (12, 18), (0, 6), (4000, 8000), 3.5, (-20, -6), (1, 2)),
    LoudspeakerFamily("smart-speaker", "test", (60, 160), (18, 24), (0, 5), (8000, 18000), 1.5, (-28, -12), (1.5, 4)),
    LoudspeakerFamily("bookshelf", "test", (50, 110), (12, 24), (0, 4), (12000, 20000), 1.5, (-36, -20), (1, 1)),
    LoudspeakerFamily("car", "test", (70, 180), (6, 12), (0, 8), (5000, 14000), 3.5, (-28, -12), (1, 2)),
)
ROOMS = (
    RoomFamily("office", "train", (20, 80), (0.25, 0.7), (0.15, 2.0)),
    RoomFamily("bedroom", "train", (20, 50), (0.15, 0.4), (0.1, 2.5)),
    RoomFamily("living", "train", (40, 150), (0.3, 0.8), (0.3, 3.5)),
    RoomFamily("corridor", "dev", (15, 60), (0.4, 0.9), (0.2, 2.5)),
    RoomFamily("studio", "dev", (15, 60), (0.1, 0.3), (0.1, 1.5)),
    RoomFamily("kitchen", "test", (15, 50), (0.35, 0.9), (0.15, 2.5)),
    RoomFamily("meeting", "test", (60, 250), (0.3, 0.9), (0.3, 4.0)),
    RoomFamily("cabin", "test", (2.5, 6), (0.06, 0.15), (0.3, 0.8)),
)
MICROPHONES = (
    MicrophoneFamily("usb", "train", (20, 80), (6, 12), (-0.3, 0.3), (2000, 7000), (-2, 4), (35, 60)),
    MicrophoneFamily("laptop", "train", (60, 180), (6, 12), (-0.5, 0.5), (2000, 6000), (-3, 5), (25, 45)),
    MicrophoneFamily("headset", "train", (50, 150), (6, 12), (-0.3, 0.8), (1500, 5000), (-1, 5), (30, 55)),
    MicrophoneFamily("phone", "dev", (60, 200), (6, 12, 18), (-0.4, 0.4), (1500, 6000), (-2, 4), (30, 55)),
    MicrophoneFamily("array", "test", (30, 120), (6, 12), (-0.2, 0.7), (4000, 7800), (-1, 6), (25, 50)),
    MicrophoneFamily("lavalier", "test", (40, 160), (6, 12), (-0.7, 0.3), (800, 3500), (-3, 4), (30, 50)),
)


@dataclass(frozen=True, slots=True)
class Loudspeaker:
    """One loudspeaker: an amplifier with limiter, a driver's non-linearity, and a linear response (FIR).

    ``nonlinearity`` is "clip" (the amplifier saturates), "polynomial" (even and odd distortion of the wave) or
    "excursion" (the bass modulates everything, as force factor and stiffness fall away from rest).
    """

    family: str
    taps: Floats
    nonlinearity: str
    drive: float
    asymmetry: float
    limiter: float
    excursion_hz: float

    def play(self, samples: Samples) -> Samples:
        """What leaves the loudspeaker for ``samples`` (float32 (n,)); level as that of the input."""
        rms = augment.active_rms(samples)
        if rms <= 0:
            return samples.copy()
        driven = _limit(samples / rms, self.limiter) * self.drive
        fine = soxr.resample(driven.astype(np.float32), SAMPLE_RATE, 2 * SAMPLE_RATE)
        bent = soxr.resample(self._bend(fine), 2 * SAMPLE_RATE, SAMPLE_RATE)[: len(samples)]
        bent = np.pad(bent, (0, len(samples) - len(bent)))
        out = augment.apply_response((bent / self.drive * rms).astype(np.float32), self.taps)
        level = augment.active_rms(out)
        return (out * (rms / level)).astype(np.float32) if level > 0 else out

    def _bend(self, wave: Samples) -> Samples:
        if self.nonlinearity == "clip":
            bent = np.tanh(wave + self.asymmetry * wave**2)
        elif self.nonlinearity == "polynomial":
            limited = np.tanh(wave / 1.5) * 1.5
            bent = limited + self.asymmetry * limited**2 - limited**3 / 6
        else:
            size = 1 << len(wave).bit_length()
            frequency = np.fft.rfftfreq(size, 1 / (2 * SAMPLE_RATE))
            bass = np.fft.rfft(wave, size) / (1 + (frequency / self.excursion_hz) ** 2)
            excursion = np.tanh(2 * np.fft.irfft(bass, size)[: len(wave)])
            bent = wave * (1 + self.asymmetry * excursion - 0.5 * excursion**2)
        return bent.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Bank:
    """Recorded material of one split: noises, measured rooms, and loudspeaker cabinets."""

    split: Split
    noises: tuple[Samples, ...]
    rooms: tuple[Samples, ...]
    cabinets: tuple[Samples, ...]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated recording with the names of its parts: "loudspeaker/room/microphone/codec", "-" where absent."""

    samples: Samples
    scene: str


def load_bank(items: Sequence[Item], split: Split) -> Bank:
    """Read the noises and responses of ``split`` from the corpus ``items``; only sets of classes A and A*."""
    mine = [i for i in items if i.split == split and i.licence_class in TRAIN_LICENCES]
    audio = {i.path: read_waveform(i.path).samples for i in mine if i.kind in ("noise", "rir")}
    cabinet = {i.path: "cabinet" in i.note for i in mine}
    rirs = [i.path for i in mine if i.kind == "rir" and np.any(audio[i.path])]
    return Bank(
        split,
        noises=tuple(audio[i.path] for i in mine if i.kind == "noise"),
        rooms=tuple(audio[p] for p in rirs if not cabinet[p]),
        cabinets=tuple(audio[p] for p in rirs if cabinet[p]),
    )


def random_loudspeaker(split: Split, rng: np.random.Generator, cabinets: Sequence[Samples] = ()) -> Loudspeaker:
    """Draw a loudspeaker of a family of ``split``; one in ten has a measured cabinet on top."""
    family = _choose([f for f in LOUDSPEAKERS if f.split == split], rng)
    low = _log_uniform(family.low_cut, rng)
    octave = np.log2(GRID / 1000)
    gains = augment.band_gains(
        GRID, low, _log_uniform(family.high_cut, rng), low_slope=float(rng.choice(family.low_slopes))
    )
    gains += rng.uniform(*family.port_db) * np.exp(-((np.log2(GRID / (1.2 * low)) / 0.35) ** 2))
    for _ in range(8):
        centre, width = rng.uniform(np.log2(low / 1000), 3.0), rng.uniform(0.08, 0.6)
        gains += rng.normal(0, family.ripple_db) * np.exp(-(((octave - centre) / width) ** 2))
    gains += rng.uniform(-1.5, 0.5) * np.maximum(octave - 1, 0)  # off its axis a loudspeaker loses treble
    taps = augment.response_filter(GRID, gains)
    if cabinets and rng.random() < 0.1:
        cabinet = _choose(cabinets, rng)[: SAMPLE_RATE // 20].astype(np.float64)
        taps = np.convolve(taps, cabinet / np.sqrt(np.sum(cabinet**2)))
    return Loudspeaker(
        family.name,
        taps,
        str(rng.choice(["clip", "polynomial", "excursion"])),
        drive=float(10 ** (rng.uniform(*family.drive_db) / 20)),
        asymmetry=float(rng.uniform(0, 0.5)),
        limiter=float(rng.uniform(*family.limiter)),
        excursion_hz=low,
    )


def microphone_taps(family: MicrophoneFamily, rng: np.random.Generator) -> Floats:
    """FIR (512,) of a microphone of ``family``."""
    octave = np.log2(GRID / 1000)
    gains = augment.band_gains(
        GRID, _log_uniform(family.low_cut, rng), 1e5, low_slope=float(rng.choice(family.low_slopes))
    )
    gains += rng.uniform(*family.tilt) * octave
    peak = np.log2(_log_uniform(family.presence_hz, rng) / 1000)
    gains += rng.uniform(*family.presence_db) * np.exp(-(((octave - peak) / rng.uniform(0.3, 0.9)) ** 2))
    for _ in range(4):
        gains += rng.normal(0, 0.5) * np.exp(-(((octave - rng.uniform(-3.5, 3)) / rng.uniform(0.1, 0.5)) ** 2))
    return augment.response_filter(GRID, gains)


def capture(samples: Samples, bank: Bank, rng: np.random.Generator) -> Simulated:
    """Room, microphone, noise and codec, each sometimes absent; the same draws for live speech and for replay."""
    room_name = microphone_name = codec_name = "-"
    wet = samples
    if rng.random() < 0.75:
        room_name, response = _random_room(bank, rng)
        wet = augment.convolve(wet, response)
    if rng.random() < 0.7:
        microphone = _choose([f for f in MICROPHONES if f.split == bank.split], rng)
        microphone_name = microphone.name
        wet = augment.apply_response(wet, microphone_taps(microphone, rng))
        hiss = augment.coloured_noise(len(wet), rng.uniform(-0.5, 1.5), rng)
        wet = augment.add_noise(wet, hiss, rng.uniform(*microphone.noise_db), rng)
    if rng.random() < 0.5:
        wet = _add_ambience(wet, bank, (12, 40), rng)
    if rng.random() < 0.25:
        codec_name = str(rng.choice(["opus", "mp3", "vorbis"]))
        wet = augment.random_codec(_safe_peak(wet), rng, (codec_name,))  # type: ignore[arg-type]
    return Simulated(wet, f"-/{room_name}/{microphone_name}/{codec_name}")


def simulate_live(samples: Samples, bank: Bank, rng: np.random.Generator) -> Simulated:
    """``samples`` spoken by a person in a random scene of the bank's split."""
    return capture(samples, bank, rng)


def simulate_replay(samples: Samples, bank: Bank, rng: np.random.Generator) -> Simulated:
    """``samples`` stolen and played by a loudspeaker in a random scene of the bank's split."""
    stolen = samples
    if rng.random() < 0.3:
        stolen = augment.convolve(stolen, _random_room(bank, rng)[1])
    if rng.random() < 0.3:
        stolen = _add_ambience(stolen, bank, (15, 35), rng)
    if rng.random() < 0.25:
        stolen = augment.random_codec(_safe_peak(stolen), rng)
    loudspeaker = random_loudspeaker(bank.split, rng, bank.cabinets)
    captured = capture(loudspeaker.play(stolen), bank, rng)
    return Simulated(captured.samples, loudspeaker.family + captured.scene[1:])


def _random_room(bank: Bank, rng: np.random.Generator) -> tuple[str, Samples]:
    """Name and impulse response of a room: one in seven measured, where the bank has any."""
    if bank.rooms and rng.random() < 0.15:
        return "measured", _choose(bank.rooms, rng)
    family = _choose([f for f in ROOMS if f.split == bank.split], rng)
    room = augment.random_room(rng, volume=family.volume, rt60=family.rt60, distance=family.distance)
    return family.name, augment.room_response(room, rng)


def _add_ambience(samples: Samples, bank: Bank, snr: Range, rng: np.random.Generator) -> Samples:
    recorded = bool(bank.noises) and rng.random() < 0.6
    noise = _choose(bank.noises, rng) if recorded else augment.coloured_noise(len(samples), rng.uniform(0, 2), rng)
    return augment.add_noise(samples, noise, rng.uniform(*snr), rng)


def _limit(wave: Floats | Samples, ratio: float) -> Floats:
    """Compress the 10 ms envelope above the mean level (unit RMS) by ``ratio``."""
    if ratio <= 1:
        return np.asarray(wave, dtype=np.float64)
    frame = SAMPLE_RATE // 100
    count = -(-len(wave) // frame)
    framed = np.pad(np.asarray(wave, dtype=np.float64), (0, count * frame - len(wave))).reshape(count, frame)
    envelope = np.maximum(np.sqrt((framed**2).mean(axis=1)), 1e-6)
    gain = np.minimum(1.0, envelope ** (1 / ratio - 1))
    centres = (np.arange(count) + 0.5) * frame
    limited: Floats = wave * np.interp(np.arange(len(wave)), centres, gain)
    return limited


def _safe_peak(samples: Samples) -> Samples:
    peak = float(np.abs(samples).max()) if samples.size else 0.0
    return samples if peak <= 0.95 else (samples * (0.95 / peak)).astype(np.float32)


def _log_uniform(bounds: Range, rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(bounds[0]), np.log(bounds[1]))))


def _choose(options: Sequence[T], rng: np.random.Generator) -> T:
    return options[int(rng.integers(len(options)))]
