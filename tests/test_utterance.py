"""From waveform to utterance: speech segments, quality, trimming, level."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from voiceid.audio import prepare, read_waveform
from voiceid.audio.level import SPEECH_DBFS, apply_level, speech_rms
from voiceid.audio.vad import speech_segments
from voiceid.types import SAMPLE_RATE, QualityFault, Segment, Source, Waveform


def wave(samples: np.ndarray) -> Waveform:
    return Waveform(samples.astype(np.float32), Source.FILE)


def silence(seconds: float) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1e-4, int(seconds * SAMPLE_RATE))


@pytest.fixture(scope="module")
def clean(speech: Path) -> np.ndarray:
    return read_waveform(speech).samples[: 4 * SAMPLE_RATE]


def test_segments_follow_the_speech(clean: np.ndarray) -> None:
    padded = np.concatenate([silence(1.5), clean, silence(2.0)])
    segments = speech_segments(padded.astype(np.float32))
    assert segments[0].start == pytest.approx(1.5, abs=0.5)
    assert segments[-1].end == pytest.approx(5.5, abs=0.5)
    assert all(a.end < b.start for a, b in itertools.pairwise(segments))


@pytest.mark.parametrize("gain", [0.02, 0.3, 1.0, 2.0])
def test_utterance_does_not_depend_on_gain(clean: np.ndarray, gain: float) -> None:
    loud = prepare(wave(clean))
    other = prepare(wave(clean * gain))
    assert 20 * np.log10(speech_rms(other.samples, other.speech)) == pytest.approx(SPEECH_DBFS, abs=0.1)
    assert other.quality.net_speech == pytest.approx(loud.quality.net_speech, abs=0.25)


def test_padding_and_dc_are_removed(clean: np.ndarray) -> None:
    plain = prepare(wave(clean))
    padded = prepare(wave(np.concatenate([silence(3), clean, silence(3)]) + 0.05))
    assert padded.seconds == pytest.approx(plain.seconds, abs=0.4)
    assert abs(float(padded.samples.mean())) < 1e-3
    assert padded.quality.dc_offset == pytest.approx(0.05, abs=0.005)
    assert len(padded.net_speech()) / SAMPLE_RATE == pytest.approx(padded.quality.net_speech, abs=0.05)


def test_lone_peaks_are_clipped_not_wrapped() -> None:
    samples = np.full(1600, 0.001, np.float32)
    samples[::2] *= -1
    samples[800] = 1.0
    levelled = apply_level(samples, (Segment(0.0, 0.04),))
    assert np.abs(levelled).max() == pytest.approx(0.99)
    assert levelled[800] > 0


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        (np.zeros(32000), QualityFault.SILENT),
        (np.full(32000, 0.25), QualityFault.SILENT),
        (np.zeros(0), QualityFault.SILENT),
        (np.ones(1) * 0.1, QualityFault.SILENT),
    ],
)
def test_no_speech_is_a_fault(samples: np.ndarray, fault: QualityFault) -> None:
    assert prepare(wave(samples)).quality.faults == (fault,)


@pytest.mark.parametrize("gain", [0.1, 1.0, 100.0, 1000.0])
def test_noise_alone_is_never_judged(gain: float) -> None:
    assert prepare(wave(silence(3.0) * gain)).quality.faults


def test_short_quiet_clipped_and_noisy_speech_are_faults(clean: np.ndarray) -> None:
    assert prepare(wave(clean[: int(0.3 * SAMPLE_RATE)])).quality.faults == (QualityFault.TOO_SHORT,)
    assert QualityFault.TOO_QUIET in prepare(wave(clean * 0.001)).quality.faults
    clipped = np.clip(clean * 40, -1, 1)
    assert QualityFault.CLIPPED in prepare(wave(clipped)).quality.faults
    assert QualityFault.CLIPPED in prepare(wave(clipped * 0.5)).quality.faults, "scaling down must not hide clipping"
    assert prepare(wave(clean)).quality.faults == ()
    noise = np.random.default_rng(1).normal(0, 1, len(clean)) * float(np.std(clean)) * 1.5
    assert prepare(wave(clean + noise)).quality.faults, "speech below the noise must not be judged"


def test_snr_estimate_falls_with_noise(clean: np.ndarray) -> None:
    power = float(np.std(clean))
    rng = np.random.default_rng(2)
    estimates = [
        prepare(wave(clean + rng.normal(0, power * 10 ** (-snr / 20), len(clean)))).quality.snr_db
        for snr in (30, 20, 10)
    ]
    assert estimates == sorted(estimates, reverse=True)
    assert estimates[1] == pytest.approx(20, abs=5)
