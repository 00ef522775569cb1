"""Augmentation primitives against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import freqz, oaconvolve

from tools.train.data import augment
from voiceid.types import SAMPLE_RATE


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def tone() -> np.ndarray:
    return (0.1 * np.sin(2 * np.pi * 440 * np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE)).astype(np.float32)


@pytest.mark.parametrize("snr", [0.0, 10.0, 25.0])
@pytest.mark.parametrize("length", [1000, 100_000])
def test_noise_lands_at_the_asked_ratio(tone, rng, snr, length) -> None:
    noise = rng.standard_normal(length).astype(np.float32)
    added = augment.add_noise(tone, noise, snr, rng).astype(np.float64) - tone
    assert 10 * np.log10(np.mean(tone.astype(float) ** 2) / np.mean(added**2)) == pytest.approx(snr, abs=0.1)


def test_noise_of_nothing_changes_nothing(tone, rng) -> None:
    assert np.array_equal(augment.add_noise(tone, np.zeros(100, np.float32), 0.0, rng), tone)
    assert np.array_equal(augment.add_noise(tone, np.zeros(0, np.float32), 0.0, rng), tone)


def test_active_rms_ignores_pauses(tone) -> None:
    gaps = np.concatenate((tone, np.zeros_like(tone)))
    assert augment.active_rms(gaps) == pytest.approx(0.1 / np.sqrt(2), rel=1e-2)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.0, 2.0])
def test_coloured_noise_has_its_slope(rng, exponent) -> None:
    noise = augment.coloured_noise(1 << 17, exponent, rng)
    power = np.abs(np.fft.rfft(noise)) ** 2
    frequency = np.fft.rfftfreq(len(noise), 1 / SAMPLE_RATE)
    octaves = [power[(frequency >= f) & (frequency < 2 * f)].mean() for f in (250, 500, 1000, 2000)]
    slope = np.polyfit(range(4), np.log2(octaves), 1)[0]
    assert slope == pytest.approx(-exponent, abs=0.1)


def test_convolution_agrees_with_scipy_and_is_aligned(tone, rng) -> None:
    response = rng.standard_normal(300) * np.exp(-np.arange(300) / 40)
    response[20] = 8.0
    expected = oaconvolve(tone, response / np.linalg.norm(response))[20 : 20 + len(tone)]
    assert np.abs(augment.convolve(tone, response) - expected).max() < 1e-6
    with pytest.raises(ValueError, match="silence"):
        augment.convolve(tone, np.zeros(3))


def test_room_response_decays_in_its_reverberation_time() -> None:
    rng = np.random.default_rng(0)
    for rt60 in (0.3, 0.6):
        room = augment.Room((6.0, 4.0, 2.6), (1.5, 1.0, 1.2), (4.0, 2.5, 1.4), (rt60, rt60))
        response = augment.room_response(room, rng).astype(np.float64)
        decay = 10 * np.log10(np.cumsum(response[::-1] ** 2)[::-1] / np.sum(response**2))
        seconds = (np.argmax(decay < -25) - np.argmax(decay < -5)) / SAMPLE_RATE * 3
        assert seconds == pytest.approx(rt60, rel=0.35)
        assert np.isfinite(response).all()


def test_first_reflection_arrives_when_geometry_says() -> None:
    # Floor reflection, source and microphone 1 m high, 2 m apart, in a room too large for others to come first.
    room = augment.Room((40.0, 40.0, 30.0), (19.0, 20.0, 1.0), (21.0, 20.0, 1.0), (1.0, 1.0))
    response = np.abs(augment.room_response(room, np.random.default_rng(0)))
    direct = int(np.argmax(response))
    later = response.copy()
    later[: direct + 8] = 0
    gap = (2 * np.sqrt(2) - 2) / augment.SPEED_OF_SOUND * SAMPLE_RATE
    assert int(np.argmax(later[: direct + 200])) - direct == pytest.approx(gap, abs=4)
    eyring = np.exp(-0.161 * 48_000 / 8_000 / 2)  # volume over surface at RT60 = 1 s
    assert later.max() / response.max() == pytest.approx(eyring / np.sqrt(2), rel=0.1)


def test_random_rooms_keep_both_ends_inside(rng) -> None:
    for _ in range(50):
        room = augment.random_room(rng)
        for point in (room.source, room.microphone):
            assert all(0 < p < s for p, s in zip(point, room.size, strict=True))
        assert room.distance <= 3.01


def test_response_filter_has_the_asked_magnitude() -> None:
    grid = np.geomspace(50, 8000, 200)
    gains = augment.band_gains(grid, 200.0, 4000.0)
    points, response = freqz(augment.response_filter(grid, gains), worN=[200, 500, 1000, 4000, 6000], fs=SAMPLE_RATE)
    assert np.allclose(20 * np.log10(np.abs(response)), np.interp(points, grid, gains), atol=0.5)


def test_response_filter_is_minimum_phase() -> None:
    grid = np.geomspace(50, 8000, 200)
    taps = augment.response_filter(grid, augment.band_gains(grid, 300.0, 3000.0))
    assert np.cumsum(taps**2)[64] > 0.95 * np.sum(taps**2)


def test_band_limit_removes_what_is_outside(rng) -> None:
    noise = augment.coloured_noise(1 << 15, 0.0, rng)
    limited = augment.band_limit(noise, 300.0, 3400.0)
    power = np.abs(np.fft.rfft(limited)) ** 2
    frequency = np.fft.rfftfreq(len(noise), 1 / SAMPLE_RATE)
    inside = power[(frequency > 500) & (frequency < 3000)].mean()
    assert power[frequency < 100].mean() < 1e-3 * inside
    assert power[frequency > 6000].mean() < 1e-3 * inside


@pytest.mark.parametrize("codec", augment.available_codecs())
def test_codecs_keep_length_place_and_most_of_the_wave(tone, codec) -> None:
    decoded = augment.codec_round_trip(tone, codec)
    assert decoded.shape == tone.shape and decoded.dtype == np.float32
    middle = slice(8000, 24_000)
    assert np.corrcoef(decoded[middle], tone[middle])[0, 1] > 0.9
    assert not np.array_equal(decoded, tone)


def test_unavailable_codec_is_named(tone, monkeypatch) -> None:
    monkeypatch.setattr(augment.soundfile, "check_format", lambda *_: False)
    with pytest.raises(ValueError, match="cannot write opus"):
        augment.codec_round_trip(tone, "opus")


def test_resampling_round_trip_cuts_the_band(rng) -> None:
    noise = augment.coloured_noise(1 << 15, 0.0, rng)
    power = np.abs(np.fft.rfft(augment.resample_round_trip(noise, 8000))) ** 2
    assert power[-len(power) // 3 :].mean() < 1e-3 * power[100 : len(power) // 3].mean()


def test_speed_moves_length_and_pitch(tone) -> None:
    faster = augment.change_speed(tone, 1.25)
    assert len(faster) == pytest.approx(len(tone) / 1.25, abs=2)
    peak = np.argmax(np.abs(np.fft.rfft(faster))) * SAMPLE_RATE / len(faster)
    assert peak == pytest.approx(550, abs=2)


def test_same_seed_same_audio(tone) -> None:
    def chain(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        wet = augment.convolve(tone, augment.room_response(augment.random_room(rng), rng))
        wet = augment.apply_response(wet, augment.microphone_response(rng))
        wet = augment.add_noise(wet, augment.coloured_noise(5000, 1.0, rng), 10, rng)
        return augment.random_codec(augment.random_gain(wet, -6, 6, rng), rng)

    assert np.array_equal(chain(1), chain(1))
    assert not np.array_equal(chain(1), chain(2))
