"""Where the demo's people come from: Debian's recorded telephone prompts, or any folder of recordings.

The prompts (packages ``asterisk-core-sounds-*-g722``, 16 kHz G.722, CC BY-SA 3.0 and CC BY 3.0, credits in each
package's copyright file) are read by people; no model here was trained on these recordings.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from voiceid.audio.files import read_waveform, to_mono_16k
from voiceid.audio.vad import speech_segments
from voiceid.types import SAMPLE_RATE, Samples

PROMPTS = {"fr": "June", "it": "Carlo", "ru": "Ivrvoice", "es": "Allison"}
"""Language of the package, and the voice in it."""
PACKAGE = "asterisk-core-sounds-{language}-g722"
COMMAND_SECONDS = 2.5
"""Net speech that makes a command; shorter recordings are joined until they reach it."""
MAX_SECONDS = 6.0
"""Longer recordings are cut here."""
SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".au", ".g722"))


class VoicesError(Exception):
    """Recordings that cannot be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One spoken command: ``samples`` float32 (n,) at 16 kHz, ``name`` for the table."""

    name: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class Voice:
    """One person and what they say, in a fixed order."""

    name: str
    clips: tuple[Clip, ...]


def debian_voices(cache: Path, count: int) -> tuple[Voice, ...]:
    """The four people of :data:`PROMPTS`, ``count`` commands each; downloaded into ``cache`` on first use.

    Raises:
        VoicesError: the packages cannot be downloaded or unpacked.
    """
    return tuple(
        _voice(person, _fetch(PACKAGE.format(language=language), cache).glob("*/*.g722"), count)
        for language, person in PROMPTS.items()
    )


def folder_voices(folder: Path, count: int) -> tuple[Voice, ...]:
    """One person for each sub-folder of ``folder``, in order of name, ``count`` commands each.

    Raises:
        VoicesError: no such folder, fewer than two people, or one with too little speech.
        AudioError: a recording cannot be read.
    """
    if not folder.is_dir():
        raise VoicesError(f"{folder}: no such folder; name one with a sub-folder of recordings for each person")
    people = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(people) < 2:
        raise VoicesError(f"{folder}: needs a sub-folder of recordings for each of at least two people")
    return tuple(_voice(person.name, person.rglob("*"), count) for person in people)


def decode(path: Path) -> Samples:
    """Read a recording as float32 (n,) at 16 kHz; raw G.722, which libsndfile lacks, through FFmpeg's decoder.

    Raises:
        AudioError: not readable as audio.
    """
    if path.suffix != ".g722":
        return read_waveform(path).samples
    with av.open(str(path), format="g722") as container:
        frames = [frame.to_ndarray().ravel() for frame in container.decode(audio=0)]
    pcm = np.concatenate(frames) if frames else np.zeros(1, np.int16)
    return to_mono_16k(pcm.astype(np.float32) / np.float32(32768), SAMPLE_RATE, name=str(path))


def commands(recordings: Iterable[Clip]) -> Iterator[Clip]:
    """Cut and join ``recordings`` into commands: those long enough, in their order, then the rest, joined.

    A command holds at least :data:`COMMAND_SECONDS` of net speech and lasts at most :data:`MAX_SECONDS`.
    """
    limit = int(MAX_SECONDS * SAMPLE_RATE)
    short: list[Clip] = []
    for clip in recordings:
        if net_speech(clip.samples[:limit]) >= COMMAND_SECONDS:
            yield Clip(clip.name, clip.samples[:limit])
        else:
            short.append(clip)
    parts: list[Clip] = []
    for clip in short:
        parts.append(clip)
        joined = np.concatenate([part.samples for part in parts])[:limit]
        if net_speech(joined) >= COMMAND_SECONDS:
            yield Clip("+".join(part.name for part in parts), joined)
            parts = []


def net_speech(samples: Samples) -> float:
    """Seconds of speech without its pauses."""
    return sum(segment.seconds for segment in speech_segments(samples))


def _voice(name: str, files: Iterable[Path], count: int) -> Voice:
    recordings = (Clip(path.stem, decode(path)) for path in sorted(files) if path.suffix.lower() in SUFFIXES)
    clips = tuple(clip for clip, _ in zip(commands(recordings), range(count), strict=False))
    if len(clips) < count:
        raise VoicesError(
            f"{name}: speech for {len(clips)} commands of {COMMAND_SECONDS} s, but {count} are needed; add recordings"
        )
    return Voice(name, clips)


def _fetch(package: str, cache: Path) -> Path:
    """The folder of sounds of ``package``, downloaded and unpacked without root if it is not in ``cache`` yet."""
    sounds = cache / package / "usr/share/asterisk/sounds"
    if not sounds.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _download(package, cache)
        archive = max(cache.glob(f"{package}_*.deb"))
        _run(["dpkg-deb", "-x", archive.name, f"{package}.part"], cache)
        (cache / f"{package}.part").rename(cache / package)
        archive.unlink()
    return sounds


def _download(package: str, cache: Path) -> None:
    """By ``apt-get download``; where the machine's package lists are empty or stale, with lists of the user's own."""
    try:
        _run(["apt-get", "download", package], cache)
    except VoicesError:
        state = cache / "apt"
        for folder in ("lists/partial", "archives/partial"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        own = [f"-oDir::State::Lists={state / 'lists'}", f"-oDir::Cache={state}", "-oAPT::Sandbox::User="]
        _run(["apt-get", *own, "update"], cache)
        _run(["apt-get", *own, "download", package], cache)


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise VoicesError(
            f"{command[0]} is not on this machine (it is on Debian and Raspberry Pi OS); "
            "use recordings of your own: make demo SAMPLES=FOLDER, one sub-folder for each person"
        ) from None
    except subprocess.CalledProcessError as error:
        raise VoicesError(f"{' '.join(command)} failed: {error.stderr.strip() or error.stdout.strip()}") from error
