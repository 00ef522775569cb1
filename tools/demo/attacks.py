"""Attacks made on the spot from a person's own recordings: artificial speech, a loudspeaker, a splice.

All take and return float32 (n,) at 16 kHz and draw only from the generator they are given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.train.data.replay import Bank, simulate_replay
from voiceid.audio import prepare
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

NFFT = 1024
HOP = 256
MEL_BANDS = 80
ITERATIONS = 32
MOMENTUM = 0.99
WAKE_WORD_SECONDS = 1.5
FADE = 80
"""Samples over which a splice fades from one voice to the other: 5 ms, so that no click gives it away."""

Complex = NDArray[np.complex128]


def copy_synthesis(samples: Samples, rng: np.random.Generator) -> Samples:
    """The same voice saying the same words, rebuilt from an 80-band mel spectrogram as text-to-speech does.

    The phase is rebuilt by the fast Griffin-Lim algorithm (Perraudin, Balazs and Søndergaard, WASPAA 2013).
    """
    triangles = _mel_triangles()
    mel = np.abs(_stft(samples)) @ triangles
    magnitude = np.maximum(mel @ np.linalg.pinv(triangles), 0.0)
    previous = spectrum = magnitude * np.exp(2j * np.pi * rng.random(magnitude.shape))
    for _ in range(ITERATIONS):
        consistent = _stft(_istft(spectrum, len(samples)))
        accelerated = consistent + MOMENTUM * (consistent - previous)
        previous = consistent
        spectrum = magnitude * accelerated / np.maximum(np.abs(accelerated), 1e-12)
    return _istft(spectrum, len(samples)).astype(np.float32)


def replay(samples: Samples, rng: np.random.Generator) -> Samples:
    """A recording played by a loudspeaker in a room: simulated, with equipment that no model was trained on."""
    return simulate_replay(samples, Bank("test", noises=(), rooms=(), cabinets=()), rng).samples


def splice(opening: Samples, rest: Samples) -> Samples:
    """One person's first :data:`WAKE_WORD_SECONDS`, then another's words, at one level: a partly spoofed command."""
    first, second = (prepare(Waveform(part, Source.FILE)).samples for part in (opening, rest))
    first = first[: int(WAKE_WORD_SECONDS * SAMPLE_RATE)]
    fade = np.linspace(0.0, 1.0, FADE, dtype=np.float32)
    seam = first[-FADE:] * (1 - fade) + second[:FADE] * fade
    return np.concatenate((first[:-FADE], seam, second[FADE:]))


def _window() -> NDArray[np.float64]:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(NFFT) / NFFT)


def _stft(samples: NDArray[np.floating]) -> Complex:
    """(n,) to (t, 513), centred frames."""
    padded = np.pad(samples, (NFFT // 2, NFFT // 2 + HOP))
    frames = np.lib.stride_tricks.sliding_window_view(padded, NFFT)[::HOP]
    return np.fft.rfft(frames * _window())


def _istft(spectrum: Complex, length: int) -> NDArray[np.float64]:
    """Least-squares inverse of :func:`_stft` (Griffin and Lim, 1984)."""
    window = _window()
    total = _overlap_add(np.fft.irfft(spectrum, NFFT) * window)
    weight = _overlap_add(np.broadcast_to(window**2, (len(spectrum), NFFT)))
    return (total / np.maximum(weight, 1e-8))[NFFT // 2 : NFFT // 2 + length]


def _overlap_add(frames: NDArray[np.float64]) -> NDArray[np.float64]:
    """(t, 1024) to ((t + 3) * 256,)."""
    overlap = NFFT // HOP
    total = np.zeros((len(frames) + overlap - 1, HOP))
    for part in range(overlap):
        total[part : part + len(frames)] += frames[:, part * HOP : (part + 1) * HOP]
    return total.ravel()


def _mel_triangles() -> NDArray[np.float64]:
    """(513, 80) triangles, equally spaced in mel from 0 to 8 kHz."""
    top = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, MEL_BANDS + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(NFFT, 1 / SAMPLE_RATE)[:, None]
    rising = (bins - corners[:-2]) / np.diff(corners[:-1])
    falling = (corners[2:] - bins) / np.diff(corners[1:])
    return np.maximum(0.0, np.minimum(rising, falling))
