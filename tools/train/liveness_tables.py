"""Feature tables of the liveness data, cached: simulated pairs, real recordings of live speech, real replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.corpus import Item, Split
from tools.train.data.liveness_set import Row, cache_folder, read_shard, shards
from voiceid.audio import prepare, read_waveform
from voiceid.scoring.liveness import FRONTENDS
from voiceid.types import SAMPLE_RATE, Source, Waveform

FRONTEND = "void-97+dynamics-128"
MAX_SECONDS = 6.0
"""Real recordings are cut to this length, that of the longest simulated crop."""


@dataclass(frozen=True, slots=True)
class Table:
    """``features`` (n, 225) float32, VOID-97 first, with label, speaker, set and scene of every row."""

    features: NDArray[np.float32]
    live: NDArray[np.bool_]
    speaker: NDArray[np.str_]
    set: NDArray[np.str_]
    scene: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.live)

    def take(self, rows: NDArray[np.bool_]) -> Table:
        return Table(self.features[rows], self.live[rows], self.speaker[rows], self.set[rows], self.scene[rows])

    @property
    def loudspeaker(self) -> NDArray[np.str_]:
        """The family that played each row; "-" for live speech."""
        return np.array([scene.split("/")[0] for scene in self.scene])


def join(tables: Iterable[Table]) -> Table:
    """Rows of several tables, in order."""
    parts = list(tables)
    columns = Table.__dataclass_fields__
    return Table(*(np.concatenate([getattr(part, column) for part in parts]) for column in columns))


def simulated(split: Split) -> Table:
    """Features of every shard that :mod:`tools.train.data.liveness_set` wrote for ``split``."""
    paths = tqdm(shards(split), desc=f"features {split}", unit="shard")
    return join(_cached(path.stem, lambda path=path: read_shard(path)) for path in paths)


def recorded(items: list[Item], name: str, *, live: bool = True) -> Table:
    """Features of real recordings; those that the quality gate refuses are left out. ``name`` names the cache."""

    def rows() -> list[Row]:
        kept = []
        for item in tqdm(items, desc=f"features {name}", unit="file"):
            samples = read_waveform(item.path).samples[: int(MAX_SECONDS * SAMPLE_RATE)]
            utterance = prepare(Waveform(samples, Source.FILE))
            if utterance.quality.usable:
                speaker = item.speaker or item.path.stem
                kept.append(Row(utterance.samples, live, speaker, item.set, "-" if live else item.set))
        return kept

    return _cached(name, rows)


def _cached(name: str, rows: Callable[[], list[Row]]) -> Table:
    path: Path = cache_folder() / "features" / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        table = _table(rows())
        partial = path.with_name(f".{path.name}")
        np.savez(partial, **{column: getattr(table, column) for column in Table.__dataclass_fields__})
        partial.replace(path)
    with np.load(path, allow_pickle=False) as stored:
        return Table(*(stored[column] for column in Table.__dataclass_fields__))


def _table(rows: list[Row]) -> Table:
    return Table(
        np.stack([FRONTENDS[FRONTEND](row.samples) for row in rows]),
        np.array([row.live for row in rows], dtype=bool),
        np.array([row.speaker for row in rows], dtype=np.str_),
        np.array([row.set for row in rows], dtype=np.str_),
        np.array([row.scene for row in rows], dtype=np.str_),
    )
