"""What the identity network hears in an utterance and in parts of it: one pass for all judges that ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceid.scoring.identity import Embedding, IdentityModel
from voiceid.types import SAMPLE_RATE, Segment, Utterance

SHOWN_SECONDS, SHOWN_HOP_SECONDS = 1.5, 0.5
"""Length of the windows whose scores ``explain`` shows, and from one to the next."""

Stretches = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Voice:
    """Identity embeddings of an utterance's net speech, float32 of unit norm.

    ``whole`` (d,), of so many ``seconds``; ``before`` and ``after`` (b, d) the two sides of every possible change of
    speaker, in order of time; ``windows`` (w, d) sliding windows, each of so many ``window_seconds``, which are
    ``segments`` on the utterance's own time axis.
    """

    whole: Embedding
    seconds: float
    before: Embedding
    after: Embedding
    windows: Embedding
    window_seconds: tuple[float, ...]
    segments: tuple[Segment, ...]


def hear(model: IdentityModel, utterance: Utterance, *, least_seconds: float, hop_seconds: float) -> Voice:
    """Embed ``utterance``, its windows, and the sides of each boundary: one every ``hop_seconds``.

    A side has at least ``least_seconds``; there is no boundary in less than twice that.

    Raises:
        AudioError: less net speech than the model needs.
    """
    speech = utterance.net_speech()
    count = len(speech)
    boundaries = _boundaries(count, least_seconds, hop_seconds)
    before = np.stack([np.zeros_like(boundaries), boundaries], axis=1)
    after = np.stack([boundaries, np.full_like(boundaries, count)], axis=1)
    windows = _windows(count)
    embeddings = model.embed_stretches(speech, np.concatenate([[[0, count]], before, after, windows]))
    sides = 1 + len(boundaries)
    clock = _net_to_utterance_clock(utterance)
    return Voice(
        embeddings[0],
        count / SAMPLE_RATE,
        embeddings[1:sides],
        embeddings[sides : sides + len(boundaries)],
        embeddings[sides + len(boundaries) :],
        tuple((end - start) / SAMPLE_RATE for start, end in windows.tolist()),
        tuple(Segment(clock(start), clock(end)) for start, end in windows.tolist()),
    )


def _boundaries(count: int, least_seconds: float, hop_seconds: float) -> Stretches:
    """Sample indices (b,) of the boundaries in ``count`` samples."""
    least, hop = round(least_seconds * SAMPLE_RATE), round(hop_seconds * SAMPLE_RATE)
    return np.arange(least, count - least + 1, hop, dtype=np.int64)


def _windows(count: int) -> Stretches:
    """Windows (w, 2) over ``count`` samples; a short rest joins the last."""
    window, hop = round(SHOWN_SECONDS * SAMPLE_RATE), round(SHOWN_HOP_SECONDS * SAMPLE_RATE)
    starts = np.arange(0, max(1, count - window + 1), hop, dtype=np.int64)
    ends = starts + window
    ends[-1] = count
    return np.stack([starts, ends], axis=1)


def _net_to_utterance_clock(utterance: Utterance) -> Callable[[int], float]:
    """Map a sample index in the net speech to seconds in the utterance."""
    lengths = np.array([segment.seconds for segment in utterance.speech] or [utterance.seconds])
    starts = np.array([segment.start for segment in utterance.speech] or [0.0])
    offsets = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))

    def clock(sample: int) -> float:
        seconds = sample / SAMPLE_RATE
        index = max(0, int(np.searchsorted(offsets, seconds, side="left")) - 1)
        return float(starts[index] + seconds - offsets[index])

    return clock
