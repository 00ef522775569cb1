"""Real speech of exact lengths for the benchmark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

SPEAKER = "ls-test-clean/ls121"
"""Folder of the corpus whose speaker is used where the user names no files."""
PAUSE = 0.1
"""Seconds between two stretches of speech."""


def find_speech(files: Sequence[Path]) -> list[Path]:
    """``files``, or recordings of one speaker of the corpus in ``$VOICEID_CORPUS``.

    Raises:
        AudioError: neither is there.
    """
    if files:
        return list(files)
    corpus = os.environ.get("VOICEID_CORPUS")
    found = sorted((Path(corpus) / SPEAKER).glob("*")) if corpus else []
    if not found:
        raise AudioError(
            "the benchmark needs real speech: name one or more recordings of one person, "
            "or set VOICEID_CORPUS to the corpus"
        )
    return found


def collect_speech(files: Sequence[Path], seconds: float) -> Samples:
    """The speech of ``files``, joined with short pauses until it lasts ``seconds`` (repeated if it must be).

    Raises:
        AudioError: a file cannot be read, or there is no speech in them.
    """
    wanted = round(seconds * SAMPLE_RATE)
    parts: list[Samples] = []
    have = 0
    pause = np.zeros(round(PAUSE * SAMPLE_RATE), np.float32)
    for file in files:
        speech = prepare(read_waveform(file)).net_speech()
        parts += [speech, pause] if speech.size else []
        have += speech.size + pause.size if speech.size else 0
        if have >= wanted:
            break
    if not parts:
        raise AudioError(
            f"no speech in {', '.join(str(file) for file in files[:3])}; name recordings of a person speaking"
        )
    return np.resize(np.concatenate(parts), wanted)


def crop(speech: Samples, seconds: float) -> Waveform:
    """The first ``seconds`` of ``speech`` as a waveform."""
    return Waveform(speech[: round(seconds * SAMPLE_RATE)], Source.FILE)
