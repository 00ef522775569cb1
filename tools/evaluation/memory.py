"""Results of models on audio, kept on disk, so that measuring again is fast.

A result is keyed by the model's hash, by the code that prepares its features, and by the very samples the model got:
a changed front end, model or file gives another key, and nothing stale is ever read.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import voiceid
from voiceid.scoring.owner import ENTRY
from voiceid.types import Samples, Segment


def cache_folder() -> Path:
    """``$VOICEID_CACHE/evaluate``, by default under ``~/.cache/voiceid``."""
    return Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid") / "evaluate"


class Memory:
    """A table from keys to float32 vectors; without a folder it forgets at once."""

    def __init__(self, folder: Path | None) -> None:
        self._table: sqlite3.Connection | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._table = sqlite3.connect(folder / "results.sqlite3", timeout=60, isolation_level=None)
            self._table.execute("PRAGMA journal_mode=WAL")
            self._table.execute("PRAGMA synchronous=OFF")
            self._table.execute("CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB NOT NULL)")

    def recall(self, key: bytes, compute: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
        """The value of ``key``, computed where it is not yet known."""
        if self._table is None:
            return compute()
        row = self._table.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return np.frombuffer(row[0], np.float32)
        value = np.ascontiguousarray(compute(), np.float32)
        self._table.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, value.tobytes()))
        return value


class Remembered:
    """A judge whose embeddings, ``windows`` and ``score`` of audio are remembered; all else is the judge's own.

    What its card says of owners bears on none of these.
    """

    def __init__(self, judge: Any, memory: Memory) -> None:
        self._judge, self._memory = judge, memory
        card = judge.card
        parameters = sorted((name, value) for name, value in card.parameters.items() if name != ENTRY)
        model = (card.sha256, sorted(card.assets.items()), parameters, card.window_seconds)
        self._salt = hashlib.sha256(f"{model}{_code(card.role)}".encode()).digest()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def embed(self, samples: Samples) -> NDArray[np.float32]:
        """As the identity model's."""
        return self._recall("embed", samples, lambda: self._judge.embed(samples))

    def embed_stretches(self, samples: Samples, stretches: NDArray[np.int64]) -> NDArray[np.float32]:
        """As the identity model's."""
        flat = self._recall(
            f"stretches {stretches.tolist()}", samples, lambda: self._judge.embed_stretches(samples, stretches)
        )
        return flat.reshape(len(stretches), -1)

    def windows(self, samples: Samples) -> tuple[tuple[Segment, float], ...]:
        """As the spoofing model's."""
        flat = self._recall(
            "windows", samples, lambda: np.array([(s.start, s.end, raw) for s, raw in self._judge.windows(samples)])
        )
        return tuple((Segment(float(a), float(b)), float(raw)) for a, b, raw in flat.reshape(-1, 3))

    def score(self, first: Any, *rest: Any) -> float:
        """As the spoofing and liveness models' ``score(samples)``; the identity model's arguments pass through."""
        if rest:
            return float(self._judge.score(first, *rest))
        return float(self._recall("score", first, lambda: np.array([self._judge.score(first)]))[0])

    def _recall(self, what: str, samples: Samples, compute: Callable[[], NDArray[Any]]) -> NDArray[np.float32]:
        digest = hashlib.sha256(self._salt + what.encode())
        digest.update(np.ascontiguousarray(samples).tobytes())
        return self._memory.recall(digest.digest(), lambda: np.asarray(compute(), np.float32))


def _code(role: str) -> str:
    """Digest of the sources that turn samples into this role's scores."""
    package = Path(voiceid.__file__).parent
    sources = [package / "models" / "session.py", package / "scoring" / f"{role}.py"]
    sources += sorted((package / "features").glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources if path.is_file())).hexdigest()
