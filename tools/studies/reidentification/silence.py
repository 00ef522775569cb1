"""Find speech by the share of energy between 300 and 3000 Hz, and cut the silence out or split at it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from tools.studies.errors import StudyError
from tools.studies.results import whole_file
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE, Samples

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SilenceOptions:
    """How speech is found. ``band`` in Hz; window, hop and smoothing in seconds; shortest stretches in ms.

    ``threshold`` is the least share of a window's energy in the band. The command's own defaults are ``COMMAND``.
    """

    threshold: float = 0.25
    min_voice: int = 500
    min_silence: int = 500
    band: tuple[float, float] = (300.0, 3000.0)
    window: float = 0.02
    hop: float = 0.01
    smoothing: float = 0.5


COMMAND = SilenceOptions(threshold=0.22, min_voice=350)


def find_speech(samples: Samples, options: SilenceOptions) -> list[slice]:
    """Stretches of speech in ``samples`` (n,) at 16 kHz, in order, the last one included.

    Windows are smoothed by a median, gaps below ``min_silence`` filled, speech below ``min_voice`` dropped.

    Raises:
        StudyError: impossible options.
    """
    size, hop = round(options.window * SAMPLE_RATE), round(options.hop * SAMPLE_RATE)
    if not 0 < hop <= size:
        raise StudyError(
            f"hop {options.hop} s of window {options.window} s; the hop lies above 0 and within the window"
        )
    if len(samples) < size:
        return []
    voiced = _band_share(samples, size, hop, options.band) > options.threshold
    width = int(options.smoothing / options.window)
    voiced = median_filter(voiced.astype(np.uint8), max(1, width - (width + 1) % 2), mode="nearest").astype(bool)
    _set_short_runs(voiced, False, options.min_silence / 1000 / options.hop, inner=True)
    _set_short_runs(voiced, True, options.min_voice / 1000 / options.hop, inner=False)
    return [
        slice(start * hop, len(samples) if end == len(voiced) else (end - 1) * hop + size)
        for start, end in _runs(voiced, True)
    ]


def _band_share(samples: Samples, size: int, hop: int, band: tuple[float, float]) -> NDArray[np.float64]:
    """Share of the energy (without DC) of each window that lies in ``band``; zero for digital silence."""
    energy = np.abs(np.fft.rfft(sliding_window_view(samples, size)[::hop].astype(np.float64), axis=1)[:, 1:]) ** 2
    frequencies = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)[1:]
    inside = energy[:, (frequencies > band[0]) & (frequencies < band[1])].sum(axis=1)
    total = energy.sum(axis=1)
    share: NDArray[np.float64] = np.divide(inside, total, out=np.zeros_like(total), where=total > 0)
    return share


def _set_short_runs(flags: Flags, value: bool, shortest: float, *, inner: bool) -> None:
    """Flip runs of ``value`` with fewer than ``shortest`` windows; with ``inner`` not those at the ends."""
    for start, end in _runs(flags, value):
        if end - start < shortest and not (inner and (start == 0 or end == len(flags))):
            flags[start:end] = not value


def _runs(flags: Flags, value: bool) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags == value, [False])).astype(np.int8)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def cut(samples: Samples, options: SilenceOptions, *, split: bool) -> list[Samples]:
    """The speech of ``samples``: one piece a stretch with ``split``, else all joined; nothing where there is none."""
    pieces = [samples[stretch] for stretch in find_speech(samples, options)]
    return pieces if split or not pieces else [np.concatenate(pieces)]


def write_audio(path: Path, samples: Samples) -> None:
    """Write 16 kHz mono PCM of 16 bits, whole or not at all."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        soundfile.write(file, samples, SAMPLE_RATE, "PCM_16", format="WAV")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--wav_file", required=True, help="name of the recording")
    parser.add_argument("-i", "--input_path", type=Path, required=True, help="its folder")
    parser.add_argument("-p", "--output_path", type=Path, default=Path(), help="folder for the result")
    parser.add_argument("-s", "--speech_start_band", type=float, default=COMMAND.band[0], help="Hz")
    parser.add_argument("-e", "--speech_end_band", type=float, default=COMMAND.band[1], help="Hz")
    parser.add_argument("-w", "--sample_window", type=float, default=COMMAND.window, help="seconds")
    parser.add_argument("-o", "--sample_overlap", type=float, default=COMMAND.hop, help="hop in seconds")
    parser.add_argument("-t", "--threshold", type=float, default=COMMAND.threshold, help="share of energy in the band")
    parser.add_argument("-mv", "--min_voice", type=int, default=COMMAND.min_voice, help="ms")
    parser.add_argument("-ms", "--min_silence", type=int, default=COMMAND.min_silence, help="ms")
    parser.add_argument("-sw", "--speech_window", type=float, default=COMMAND.smoothing, help="smoothing in seconds")
    parser.add_argument("--split", action="store_true", help="one file a stretch of speech")


def run(arguments: argparse.Namespace) -> int:
    options = SilenceOptions(
        arguments.threshold,
        arguments.min_voice,
        arguments.min_silence,
        (arguments.speech_start_band, arguments.speech_end_band),
        arguments.sample_window,
        arguments.sample_overlap,
        arguments.speech_window,
    )
    name = Path(arguments.wav_file)
    pieces = cut(read_waveform(arguments.input_path / name).samples, options, split=arguments.split)
    if not pieces:
        raise StudyError(f"{arguments.input_path / name}: no speech found; lower --threshold or --min_voice")
    for number, piece in enumerate(pieces):
        path = arguments.output_path / f"{name.stem}_{number if arguments.split else 'combined'}.wav"
        write_audio(path, piece)
        print(path)
    return 0
