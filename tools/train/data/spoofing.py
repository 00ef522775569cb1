"""The data of spoofing detection: windows of genuine and artificial speech, made once and kept in shards.

``python -m tools.train.data.spoofing --split train`` writes shards of int16 windows (n, 64600) with a table beside
each. A shard holds genuine crops, copies of those same crops by random systems, and synthetic speech; all of them went
through :func:`tools.train.data.channel.channel` and the front end of the agent.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.attacks.cache import spoofing_cache
from tools.train.data.attacks.spectral import spliced_band
from tools.train.data.attacks.systems import DEV_SYSTEMS, TRAIN_SYSTEMS, System
from tools.train.data.channel import OPUS_20K, VORBIS, channel, stored, through_codec
from tools.train.data.corpus import Item, Split, read_index
from tools.train.data.packages import PACKAGES, package_items
from tools.train.data.synthetic import draw, synthetic_files, voice_of
from tools.train.networks.aasist import SAMPLES
from voiceid.audio import prepare, read_waveform
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform

QUOTAS = {"picovoice-wakewords": 350, "precise-community": 250, "speech-commands": 400, "fsdd": 40}
"""At most so many clips of sets of very short clips; all of the others."""
PACKAGE_QUOTA = 120
"""At most so many recordings of a package, and at most one crop of each."""
CROPS = {"ls-train100-1utt": 3, "ls-test-clean": 2, "ls-train100-3spk": 2}
RAW_REPEATS = 3
"""How often training takes a recording that no codec had touched: a tenth of the data, but what a microphone gives."""
MIN_SECONDS = 1.5
"""Shorter recordings seldom hold the second of speech that the agent asks for; those of one person are joined."""
JOINED_CLIPS = 4
JOINED_CROPS = 500
"""At most so many crops of joined clips: single words, but through more than a thousand people's own microphones."""
CROSSFADE = 160
"""Samples over which joined clips fade into each other: silence between them would be a trace that no copy has."""
SHARD = 96
"""Genuine crops a shard."""
WITHOUT_COPIES = "n"
"""In the name of shards without copies."""
OF_PACKAGES = "p"
"""In the name of shards whose genuine speech comes from packages."""
CHANNELS = 2
"""Channels that a crop and its copies go through, each for other windows: a channel costs little beside a copy."""
COPIES = {"opus": 2, "vorbis": 2, "flac": 5}
"""Copies of each genuine crop, by its codec: uncompressed recordings are rare."""
CODECS = {"opus": OPUS_20K, "vorbis": VORBIS}
"""Codecs in which genuine speech is kept."""
OPUS = {"opus": 1.0, "vorbis": 0.3, "flac": 0.3}
"""How often a window passes the corpus's codec behind its channel, by the codec before it: both classes alike."""
CODED_SPEECH = 0.6
"""Share of synthetic speech that passes the codec of the genuine speech beside it before its channel, too."""
WEIGHTS = {
    "world-copy": 2.0,
    "griffin-lim-mel": 2.0,
    "griffin-lim-linear": 0.1,
    "phase-drift": 0.3,
    "neural": 4.0,
    "neural-unseen": 3.0,
    "melgan": 4.0,
    "mb-melgan": 4.0,
    "hifigan-universal": 10.0,
    "hifigan-small": 8.0,
    "hifigan-one-voice": 3.0,
    "vocoder-upsampling": 4.0,
    "vocoder-spectral": 4.0,
    "vocoder-unseen": 4.0,
}
"""How often a system is drawn; the others: 1."""


@dataclass(frozen=True)
class Window:
    """What is known of one window."""

    label: int
    """1 genuine, 0 artificial."""
    system: str
    set: str
    speaker: str
    native_codec: str


@dataclass(frozen=True)
class Shard:
    """Windows int16 (n, 64600) and their rows, in the same order."""

    samples: NDArray[np.int16]
    rows: tuple[Window, ...]


@dataclass(frozen=True)
class Crop:
    """A stretch of a genuine recording, at most a little longer than a window; or short recordings of one person."""

    item: Item
    number: int
    joined: tuple[Item, ...] = ()
    """What follows ``item``, of the same speaker and set."""

    @property
    def lossy(self) -> str:
        """The codec in which most recordings of its kind are kept."""
        return "vorbis" if self.item.set in PACKAGES else "opus"

    @property
    def codec(self) -> str:
        return self.lossy if self.item.path.suffix in (".opus", ".ogg") else "flac"


def shard_folder(split: Split) -> Path:
    """Where the shards of ``split`` lie."""
    folder = spoofing_cache() / "shards" / split
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_shard(path: Path) -> Shard:
    """Read ``<name>.npy`` (memory-mapped) and the ``<name>.csv`` beside it."""
    with path.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        rows = tuple(Window(int(row.pop("label")), **row) for row in csv.DictReader(file))
    return Shard(np.load(path, mmap_mode="r"), rows)


def genuine_crops(split: Split, random: np.random.Generator, *, packages: bool = False) -> list[Crop]:
    """Shuffled crops of the genuine speech of ``split``, in the corpus or in packages.

    For training, recordings of the corpus without a codec come several times.
    """
    if packages:
        genuine = package_items(split)
    else:
        genuine = [item for item in read_index() if item.split == split and item.kind == "bonafide"]
    items = [item for item in genuine if item.seconds >= MIN_SECONDS]
    random.shuffle(items)
    taken: dict[str, int] = {}
    crops = []
    for item in items:
        limited = packages or Crop(item, 0).codec != "flac"
        taken[item.set] = taken.get(item.set, 0) + limited
        if limited and taken[item.set] > (PACKAGE_QUOTA if packages else QUOTAS.get(item.set, 10_000)):
            continue
        count = min(CROPS.get(item.set, 1), 1 + int(item.seconds // 4.5))
        repeats = 1 if limited or split != "train" else RAW_REPEATS
        crops += [Crop(item, number) for number in range(count)] * repeats
    crops += joined_crops([item for item in genuine if item.seconds < MIN_SECONDS], random)
    random.shuffle(crops)
    return crops


def joined_crops(short: list[Item], random: np.random.Generator) -> list[Crop]:
    """Crops of ``short`` recordings: up to :data:`JOINED_CLIPS` of a speaker, of each speaker once."""
    speakers: dict[tuple[str, str, str], list[Item]] = {}
    for item in short:
        if item.speaker:
            speakers.setdefault((item.set, item.speaker, item.path.suffix), []).append(item)
    several = [items for items in speakers.values() if len(items) > 1]
    random.shuffle(several)
    crops = []
    for items in several[:JOINED_CROPS]:
        chosen = [items[i] for i in random.permutation(len(items))[:JOINED_CLIPS]]
        if sum(item.seconds for item in chosen) >= MIN_SECONDS:
            crops.append(Crop(chosen[0], 0, tuple(chosen[1:])))
    return crops


def read_crop(crop: Crop) -> Samples:
    """The samples of ``crop``: about four seconds, at its number's place in the recording."""
    samples = read_waveform(crop.item.path).samples
    for item in crop.joined:
        samples = crossfaded(samples, read_waveform(item.path).samples)
    start = min(crop.number * (SAMPLES + 3_000), max(0, len(samples) - SAMPLES - 8_000))
    return samples[start : start + SAMPLES + 8_000]


def crossfaded(first: Samples, second: Samples) -> Samples:
    """``first`` (n,) and ``second`` (m,), each longer than :data:`CROSSFADE`, as one of n + m - :data:`CROSSFADE`."""
    fade = np.linspace(0, 1, CROSSFADE, dtype=np.float32)
    seam = first[-CROSSFADE:] * (1 - fade) + second[:CROSSFADE] * fade
    return np.concatenate((first[:-CROSSFADE], seam, second[CROSSFADE:]))


def window_of(samples: Samples, random: np.random.Generator) -> NDArray[np.int16] | None:
    """What the agent would score of ``samples``: prepared, cut at random or repeated to 64600; None without speech."""
    utterance = prepare(Waveform(samples, Source.FILE))
    if not utterance.speech or len(utterance.samples) < SAMPLE_RATE // 4:
        return None
    spare = max(0, len(utterance.samples) - SAMPLES)
    start = int(random.integers(spare + 1))
    window = np.resize(utterance.samples[start : start + SAMPLES], SAMPLES)
    return np.round(window * 32_767).astype(np.int16)


def copy_of(samples: Samples, systems: dict[str, System], random: np.random.Generator) -> tuple[str, Samples]:
    """A copy by a random system; one in six is artificial in one band only."""
    names = sorted(systems)
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    name = str(random.choice(names, p=weights / weights.sum()))
    copy = systems[name](samples, random)
    if not np.isfinite(copy).all():
        raise SystemExit(f"{name} gave a copy that is not finite; train or fetch it again")
    if random.random() < 1 / 6:
        copy = spliced_band(samples, copy[: len(samples)], random)
    return name, copy


def windows_of(
    crops: list[Crop], split: Split, random: np.random.Generator, *, copies: bool = True
) -> Iterator[tuple[NDArray[np.int16], Window]]:
    """Genuine windows, copies of each through the same channel, and two synthetic windows to three of them.

    Without ``copies``, which take the time, a synthetic window to each."""
    systems = TRAIN_SYSTEMS if split == "train" else {**TRAIN_SYSTEMS, **DEV_SYSTEMS}
    synthetic = synthetic_files(split)
    for index, crop in enumerate(crops):
        genuine = read_crop(crop)
        made = [(genuine, Window(1, "genuine", crop.item.set, crop.item.speaker, crop.codec))]
        for _ in range(COPIES[crop.codec] if copies else 0):
            system, copy = copy_of(genuine, systems, random)
            row = Window(0, system, crop.item.set, crop.item.speaker, crop.codec)
            made.append((_coded(copy, crop.codec, random), row))
        if synthetic and (index % 3 < 2 or not copies):
            system, path = draw(synthetic, random)
            speech = read_waveform(path).samples[: SAMPLES + 16_000]
            codec = crop.lossy if random.random() < CODED_SPEECH else "flac"
            row = Window(0, system, system, voice_of(path), codec)
            made.append((_coded(speech, codec, random), row))
        for shared in random.integers(2**32, size=CHANNELS):
            for samples, row in made:
                sent = channel(samples, np.random.default_rng(shared), split)
                window = window_of(stored(sent, random, opus=OPUS[row.native_codec]), random)
                if window is not None:
                    yield window, row


def _coded(samples: Samples, codec: str, random: np.random.Generator) -> Samples:
    """``samples`` as genuine speech of that ``codec`` was kept. A vocoder washes the codec out of what it copies, and a
    synthesizer never had it: it is put in where genuine speech got it, before the channel, or its absence and its
    place in the chain alone would tell the classes apart.
    """
    return through_codec(samples, CODECS[codec], random) if codec in CODECS else samples


def build(
    split: Split, *, shards: int, seed: int, size: int = SHARD, copies: bool = True, packages: bool = False
) -> None:
    """Write up to ``shards`` shards of ``split``; those that exist stay."""
    folder = shard_folder(split)
    crops = genuine_crops(split, np.random.default_rng(seed), packages=packages)
    kind = ("" if copies else WITHOUT_COPIES) + (OF_PACKAGES if packages else "")
    for number, first in enumerate(range(0, len(crops), size)):
        part = crops[first : first + size]
        path = folder / f"{seed:02d}{kind}-{number:03d}.npy"
        if number >= shards:
            break
        if path.exists():
            continue
        random = np.random.default_rng((seed, number))
        progress = tqdm(
            windows_of(part, split, random, copies=copies),
            total=CHANNELS * (4 if copies else 2) * len(part),
            desc=path.stem,
        )
        windows, rows = zip(*progress, strict=True)
        with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])))
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as stream:
            np.save(stream, np.stack(windows))
        partial.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("train", "dev"), default="train")
    parser.add_argument("--shards", type=int, default=100, help="at most so many shards")
    parser.add_argument("--crops", type=int, default=SHARD, help="genuine crops a shard (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other crops, copies and channels")
    parser.add_argument("--no-copies", action="store_true", help="genuine and synthetic speech alone, far faster")
    parser.add_argument("--packages", action="store_true", help="genuine speech of packages instead of the corpus's")
    given = parser.parse_args()
    build(
        given.split,
        shards=given.shards,
        seed=given.seed,
        size=given.crops,
        copies=not given.no_copies,
        packages=given.packages,
    )


if __name__ == "__main__":
    main()
