"""Pictures of decisions: drawn from real values, of the size announced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voiceid.audio import prepare, read_waveform
from voiceid.plotting import plot_decision
from voiceid.types import Decision, Evidence, Outcome, Score, Segment, Utterance, WindowScore

matplotlib_image = pytest.importorskip("matplotlib.image", reason="the extra voiceid[plot] is not installed")


@pytest.fixture
def utterance(speech: Path) -> Utterance:
    return prepare(read_waveform(speech))


def decision(utterance: Utterance, spoofing: float) -> Decision:
    good = Score(2.0, 3.0, 0.5)
    windows = tuple(WindowScore(Segment(t, t + 1.5), 2.0 + t, spoofing) for t in (0.0, 0.75))
    evidence = Evidence(good, Score(0.1, spoofing, 0.0), good, good, windows)
    return Decision(Outcome.SPOOF, ("sounds artificial",), utterance.quality, evidence, 0.4, 0.5)


def test_scores_show_in_the_picture(tmp_path: Path, utterance: Utterance) -> None:
    units = np.random.default_rng(1).integers(0, 100, int(utterance.seconds * 100)).astype(np.int16)
    drawn = []
    for spoofing in (-4.0, 4.0):
        path = tmp_path / f"{spoofing}.png"
        mask = os.umask(0)
        plot_decision(
            path,
            utterance=utterance,
            decision=decision(utterance, spoofing),
            units=units,
            codebook=100,
            title="a title",
        )
        os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        drawn.append(matplotlib_image.imread(path))
    assert drawn[0].shape[0] > 700 and drawn[0].shape[1] > 900
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("title", ["too short", r"$\nonsense{$.wav", "a\udcff.wav"])
def test_an_utterance_that_was_not_scored_can_be_drawn(tmp_path: Path, utterance: Utterance, title: str) -> None:
    path = tmp_path / "quiet.png"
    silent = Decision(Outcome.INCONCLUSIVE, ("too little speech",), utterance.quality)
    plot_decision(path, utterance=utterance, decision=silent, units=np.zeros(0, np.int16), codebook=50, title=title)
    assert matplotlib_image.imread(path).std() > 0


def test_a_long_heading_stays_inside_the_picture(tmp_path: Path, utterance: Utterance) -> None:
    path = tmp_path / "long.png"
    many = replace(decision(utterance, 1.0), reasons=("not the enrolled speaker: identity -13.41 is below +2.54",) * 5)
    title = f"{'from-the-kitchen-' * 10}.wav as {'M' * 64}"
    plot_decision(path, utterance=utterance, decision=many, units=np.zeros(9, np.int16), codebook=50, title=title)
    picture = matplotlib_image.imread(path)[:, :, :3]
    assert (picture[:, :2] == 1).all() and (picture[:, -2:] == 1).all()


def test_without_matplotlib_the_extra_is_named() -> None:
    script = (
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from voiceid.cli.main import app\napp(['explain', 'x.wav', '--plot', 'y.png'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 29 and "pip install 'voiceid[plot]'" in ran.stderr
