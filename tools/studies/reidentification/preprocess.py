"""Prepare recordings: 16 kHz mono, peak normalised, silence at the ends (or all of it) removed; then embed them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tools.studies import cluster
from tools.studies.errors import StudyError
from tools.studies.reidentification import embed
from tools.studies.reidentification.recordings import LONGEST, find_audio
from tools.studies.reidentification.scan import Apply
from tools.studies.reidentification.silence import SilenceOptions, cut, write_audio
from tools.studies.results import claim, is_whole
from voiceid.audio import read_waveform
from voiceid.errors import AudioError
from voiceid.types import SAMPLE_RATE, Samples

HEADROOM_DB = 0.1
"""Distance of the normalised peak from full scale."""
CHUNK = SAMPLE_RATE // 100
"""Samples of 10 ms, in which silence at the ends is measured."""


@dataclass(frozen=True, slots=True)
class PreprocessOptions:
    """``silence_threshold`` in dBFS for the ends; ``remove_all`` cuts inner silence by ``silence`` as well, and with
    ``split`` each stretch of speech becomes a file."""

    silence_threshold: float = -30.0
    remove_all: bool = False
    split: bool = False
    silence: SilenceOptions = field(default_factory=SilenceOptions)


def process(samples: Samples, options: PreprocessOptions) -> list[Samples]:
    """The prepared pieces of a recording (n,) at 16 kHz; none where there is only silence."""
    peak = float(np.abs(samples).max(initial=0.0))
    if peak == 0.0:
        return []
    normalised = np.asarray(samples * (10 ** (-HEADROOM_DB / 20) / peak), np.float32)
    if options.remove_all:
        return cut(normalised, options.silence, split=options.split)
    trimmed = trim_ends(normalised, options.silence_threshold)
    return [trimmed] if len(trimmed) else []


def trim_ends(samples: Samples, threshold: float) -> Samples:
    """``samples`` without the 10 ms chunks at either end whose RMS lies below ``threshold`` dBFS."""
    least = 10 ** (threshold / 20)

    def quiet(ordered: Samples) -> int:
        whole = ordered[: len(ordered) // CHUNK * CHUNK].reshape(-1, CHUNK).astype(np.float64)
        loud = np.flatnonzero(np.sqrt(np.mean(whole**2, axis=1)) >= least)
        return int(loud[0]) * CHUNK if len(loud) else len(ordered)

    start, end = quiet(samples), len(samples) - quiet(samples[::-1])
    return samples[start : max(start, end)]


@dataclass(frozen=True, slots=True)
class Processing:
    """Prepares one recording, named relative to ``source``, into ``target``; returns why it could not, or nothing."""

    source: Path
    target: Path
    options: PreprocessOptions

    def __call__(self, name: Path) -> str:
        if self.done(name):
            return ""
        try:
            pieces = process(read_waveform(self.source / name, max_seconds=LONGEST).samples, self.options)
        except AudioError as error:
            return str(error)
        if not pieces:
            return f"{self.source / name}: holds only silence"
        for number, piece in enumerate(pieces):
            write_audio(self.output(name, number), piece)
        self.marker(name).parent.mkdir(parents=True, exist_ok=True)
        self.marker(name).write_text(f"{len(pieces)}\n", "utf-8")
        return ""

    def output(self, name: Path, number: int) -> Path:
        stem = f"{name.stem}_{number}" if self.options.split else name.stem
        return self.target / name.with_name(f"{stem}.wav")

    def marker(self, name: Path) -> Path:
        """Written when all pieces of a recording are, so that an interrupted one is done again."""
        return self.target / ".done" / name.with_name(name.name + ".txt")

    def done(self, name: Path) -> bool:
        """Whether all pieces are there, whole, and newer than the recording."""
        marker = self.marker(name)
        try:
            pieces = int(marker.read_text("utf-8"))
            newer = marker.stat().st_mtime >= (self.source / name).stat().st_mtime
        except (OSError, ValueError):
            return False
        return newer and all(is_whole(self.output(name, number)) for number in range(pieces))


def preprocess(names: Sequence[Path], processing: Processing, apply: Apply = map) -> list[str]:
    """Prepare all recordings; returns the reasons of those that could not be.

    Raises:
        StudyError: the folder holds recordings prepared with other options.
    """
    claim(processing.target, {"source": str(processing.source), "options": repr(processing.options)})
    progress = tqdm(apply(processing, names), total=len(names), desc="preprocess", unit="file", disable=None)
    return sorted(reason for reason in progress if reason)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input_dir", type=Path, required=True, help="folder of recordings, searched throughout")
    parser.add_argument("-o", "--output_dir", type=Path, required=True, help="folder for prepared recordings")
    parser.add_argument("-f", "--feature_dir", type=Path, help="folder for embeddings")
    parser.add_argument("--to_process", type=Path, metavar="TXT", help="only the recordings on the lines of this file")
    parser.add_argument("-t", "--silence_threshold", type=float, default=-30.0, help="dBFS of silence at the ends")
    parser.add_argument("-m", "--min_silence", type=int, default=500, help="ms of silence that --remove_all removes")
    parser.add_argument("--remove_all", action="store_true", help="remove inner silence as well")
    parser.add_argument("--split", action="store_true", help="with --remove_all: one file a stretch of speech")
    parser.add_argument("--skip_audio", action="store_true", help="the recordings in -o are prepared already")
    parser.add_argument("--skip_features", action="store_true", help="make no embeddings")
    embed.add_model_arguments(parser)
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.split and not arguments.remove_all:
        raise StudyError("--split splits at inner silence; add --remove_all")
    if not arguments.skip_features and arguments.feature_dir is None:
        raise StudyError("name a folder for embeddings (-f), or --skip_features")
    silence = replace(SilenceOptions(), min_silence=arguments.min_silence)
    options = PreprocessOptions(arguments.silence_threshold, arguments.remove_all, arguments.split, silence)
    failed: list[str] = []
    with cluster.workers_for(arguments) as workers:
        if not arguments.skip_audio:
            names = find_audio(arguments.input_dir, arguments.to_process)
            failed += preprocess(names, Processing(arguments.input_dir, arguments.output_dir, options), workers)
        if not arguments.skip_features:
            prepared = find_audio(arguments.output_dir, None)
            model = embed.model_from(arguments)
            failed += embed.embed_all(arguments.output_dir, arguments.feature_dir, prepared, model, workers)
    return embed.report(failed)
