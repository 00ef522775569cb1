"""Whether anything but the attack tells the detector's data apart: a classifier of trivial cues, which must fail.

``python -m tools.train.control`` trains a boosted forest on level, length, bandwidth and codec traces of the training
windows and measures it on the development windows. Near 50 % the data is fair; a low error rate means that genuine and
artificial windows differ in level, length, pauses or codec, and that a detector would learn that.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from tools.output import output, write_text
from tools.train.data.spoofing import read_shard, shard_folder
from tools.train.metrics import bootstrap_ci, eer
from voiceid.types import SAMPLE_RATE

FRAME = 512
QUANTILES = (0.05, 0.5, 0.95)
ROLL_OFF = (0.9, 0.99, 0.999)
EDGES_HERTZ = (3_400, 4_000, 5_500, 6_500)
CUES = (
    "level", "peak", "clipped", "offset", "period",
    *(f"frame level q{q}" for q in QUANTILES), *(f"roll-off {r}" for r in ROLL_OFF),
    *(f"above {e}" for e in EDGES_HERTZ),
)  # fmt: skip


def cues(window: NDArray[np.int16]) -> NDArray[np.float64]:
    """The :data:`CUES` of a window of samples, none of which says how the speech itself was made: float64 (15,)."""
    samples = window.astype(np.float64) / 32_768
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    levels = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-10)
    hertz = np.fft.rfftfreq(FRAME, 1 / SAMPLE_RATE)
    power = np.mean(np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2, axis=0) + 1e-16
    share = np.cumsum(power) / power.sum()
    return np.array([
        10 * np.log10(np.mean(samples**2) + 1e-10), np.abs(samples).max(), np.mean(np.abs(samples) > 0.99),
        samples.mean(),
        _period(samples), *np.quantile(levels, QUANTILES),
        *(hertz[np.searchsorted(share, r)] for r in ROLL_OFF),
        *(10 * np.log10(power[hertz >= edge].mean() / power.mean()) for edge in EDGES_HERTZ),
    ])  # fmt: skip


def _period(samples: NDArray[np.float64]) -> float:
    """Seconds after which a short recording was repeated to fill the window; the window's length where it was not."""
    head = samples[:FRAME]
    starts = np.flatnonzero(samples[FRAME:-FRAME] == head[0]) + FRAME
    repeats = (start for start in starts if np.array_equal(samples[start : start + FRAME], head))
    return next(repeats, len(samples)) / SAMPLE_RATE


class Control:
    """Scores cues: higher is more genuine."""

    def __init__(self, table: NDArray[np.float64], labels: NDArray[np.int64], seed: int) -> None:
        self._forest = HistGradientBoostingClassifier(max_depth=4, class_weight="balanced", random_state=seed)
        self._forest.fit(table, labels)

    def score(self, windows: Iterable[NDArray[np.int16]]) -> NDArray[np.float64]:
        """One score a window."""
        scores: NDArray[np.float64] = self._forest.decision_function(np.array([cues(window) for window in windows]))
        return scores


def train_control(windows: Iterable[NDArray[np.int16]], labels: NDArray[np.int64], *, seed: int = 0) -> Control:
    """A classifier of the cues of ``windows``: label 1 genuine, 0 artificial."""
    return Control(np.array([cues(window) for window in windows]), labels, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=output, help="write the figures there")
    arguments = parser.parse_args()
    train, dev = (
        [read_shard(path) for path in sorted(shard_folder(split).glob("*.npy"))] for split in ("train", "dev")
    )
    if not train or not dev:
        raise SystemExit("no shards; run python -m tools.train.data.spoofing for the splits train and dev first")
    control = train_control(
        (window for shard in train for window in shard.samples),
        np.array([row.label for shard in train for row in shard.rows]),
    )
    scores = np.concatenate([control.score(shard.samples) for shard in dev])
    rows = [row for shard in dev for row in shard.rows]
    genuine = np.array([row.label == 1 for row in rows])
    sides = (scores[genuine], scores[~genuine])
    names = [row.system for row in rows if row.label == 0]
    figures = {
        "eer": eer(*sides),
        "ci95": bootstrap_ci(
            eer, sides, ([r.speaker for r in rows if r.label], [r.speaker for r in rows if not r.label])
        ),
        "n_bonafide": int(genuine.sum()),
        "n_spoof": int((~genuine).sum()),
        "by_system": {n: eer(sides[0], sides[1][[name == n for name in names]]) for n in sorted(set(names))},
    }
    print(json.dumps(figures, indent=1))
    if arguments.json:
        write_text(arguments.json, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
