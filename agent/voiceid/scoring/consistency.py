"""The consistency judge: one voice, and the same one, throughout the utterance.

A *partially spoofed* command (VoiceID, section on partially spoofed commands) opens with the victim's wake word and
goes on in another voice. Scored as a whole it may still resemble the owner, so the net speech is cut into short
windows and every boundary between windows is tried as a possible change of speaker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.models.card import Calibration, Card, Threshold
from voiceid.tables import from_table
from voiceid.types import SAMPLE_RATE, Samples, Segment, Utterance

Embedding = NDArray[np.float32]
NO_BOUNDARY = 1.0
"""Raw score of an utterance too short to hold a change."""


@dataclass(frozen=True, slots=True)
class ConsistencyParameters:
    """The ``consistency`` entry of an identity card's parameters: it belongs to that card's embedding space."""

    window_seconds: float
    hop_seconds: float
    calibration: Calibration
    thresholds: dict[str, Threshold]


@dataclass(frozen=True, slots=True)
class WindowEmbeddings:
    """Embeddings of sliding windows over the net speech: ``embeddings`` float32 (w, d), unit norm.

    ``segments`` are the same windows on the utterance's own time axis.
    """

    embeddings: Embedding
    segments: tuple[Segment, ...]


def consistency_parameters(card: Card) -> ConsistencyParameters:
    """Read the consistency entry of an identity ``card``.

    Raises:
        ModelError: there is none, or it is malformed.
    """
    entry: Any = card.parameters.get("consistency")
    if entry is None:
        raise ModelError(
            f"card {card.name!r} has no 'consistency' parameters; run 'python -m tools.train.consistency' on it"
        )
    return from_table(ConsistencyParameters, entry, where=f"card {card.name!r}: consistency", error=ModelError)


def embed_windows(
    utterance: Utterance, embed: Callable[[Samples], Embedding], *, window_seconds: float, hop_seconds: float
) -> WindowEmbeddings:
    """Embed windows of ``window_seconds`` every ``hop_seconds`` over the net speech; a short rest joins the last."""
    speech = utterance.net_speech()
    window, hop = int(window_seconds * SAMPLE_RATE), int(hop_seconds * SAMPLE_RATE)
    starts = list(range(0, max(1, len(speech) - window + 1), hop))
    ends = [start + window for start in starts]
    ends[-1] = len(speech)
    embeddings = np.stack([embed(speech[start:end]) for start, end in zip(starts, ends, strict=True)])
    clock = _net_to_utterance_clock(utterance)
    return WindowEmbeddings(
        embeddings, tuple(Segment(clock(start), clock(end)) for start, end in zip(starts, ends, strict=True))
    )


def consistency_score(windows: Embedding, reference: Embedding) -> float:
    """Raw consistency in [-3, 1]; ``windows`` (w, d) in order of time, ``reference`` (d,), all of unit norm.

    For each boundary the windows before and after it are averaged; the score of a boundary is how alike the two sides
    are less how differently they resemble the enrolled speaker, and the utterance scores as its worst boundary. A
    stranger who speaks throughout is consistent: the identity judge rejects him.
    """
    count = len(windows)
    if count < 2:
        return NO_BOUNDARY
    before = _unit(np.cumsum(windows, axis=0)[:-1])
    after = _unit(np.cumsum(windows[::-1], axis=0)[::-1][1:])
    alike = np.sum(before * after, axis=1)
    unlike_owner = np.abs(before @ reference - after @ reference)
    return float(np.min(alike - unlike_owner))


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))


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
