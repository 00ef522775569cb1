"""A picture of one decision: waveform, mel spectrogram, score of each segment, units (extra ``voiceid[plot]``)."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceid.errors import MissingPackageError
from voiceid.features.mel import log_mel
from voiceid.output_file import write_file
from voiceid.types import SAMPLE_RATE, Decision, Evidence, Utterance

UNIT_RATE = 100
"""Units a second."""
MEL_HZ = (0, 1000, 2000, 4000, 8000)
LINE = 120
"""Characters of the heading that fit beside each other."""
JUDGES = {"identity": "tab:blue", "spoofing": "tab:red", "guard": "tab:purple"}


def check_matplotlib() -> None:
    """Fail early where matplotlib is missing.

    Raises:
        MissingPackageError: it is.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingPackageError("pictures need matplotlib; install it with: pip install 'voiceid[plot]'") from None


def plot_decision(
    path: Path, *, utterance: Utterance, decision: Decision, units: NDArray[np.int16], codebook: int, title: str
) -> None:
    """Draw ``decision`` on ``utterance`` with its ``units`` (t,) at 100 Hz to ``path`` (PNG, SVG or PDF by its suffix).

    Raises:
        MissingPackageError: matplotlib is not installed.
        OSError: ``path`` cannot be written.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True, height_ratios=(2, 3, 3, 2))
    figure.suptitle(_heading(title, decision), fontsize=10, parse_math=False)
    _waveform(axes[0], utterance)
    _spectrogram(axes[1], utterance)
    _segments(axes[2], decision)
    _units(axes[3], units, codebook)
    axes[3].set_xlabel("seconds")
    axes[3].set_xlim(0, max(utterance.seconds, 0.1))
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:].lower(), dpi=110)
    write_file(path, picture.getvalue())


def _heading(title: str, decision: Decision) -> str:
    """Title and outcome, then each reason, in lines that the picture is wide enough for."""
    readable = title.encode("utf-8", "replace").decode()  # a file name may hold anything, stray bytes too
    paragraphs = (f"{readable}: {decision.outcome.value.replace('_', ' ')}", *decision.reasons)
    return "\n".join(line for paragraph in paragraphs for line in textwrap.wrap(paragraph, LINE))


def _waveform(axis: Any, utterance: Utterance) -> None:
    samples = utterance.samples
    axis.plot(np.arange(len(samples)) / SAMPLE_RATE, samples, color="0.3", linewidth=0.4)
    for segment in utterance.speech:
        axis.axvspan(segment.start, segment.end, color="tab:green", alpha=0.12, linewidth=0)
    axis.set_ylim(-1, 1)
    axis.set_ylabel("waveform\n(speech shaded)")


def _spectrogram(axis: Any, utterance: Utterance) -> None:
    mel = log_mel(utterance.samples)
    axis.imshow(mel.T, origin="lower", aspect="auto", cmap="magma", extent=(0, len(mel) / UNIT_RATE, 0, mel.shape[1]))
    top = 2595 * np.log10(1 + 8000 / 700)
    ticks = [2595 * np.log10(1 + hz / 700) / top * mel.shape[1] for hz in MEL_HZ]
    axis.set_yticks(ticks, [f"{hz / 1000:g}" for hz in MEL_HZ])
    axis.set_ylabel("mel spectrogram\n(kHz)")


def _segments(axis: Any, decision: Decision) -> None:
    axis.set_ylabel("segment score\n(log-likelihood ratio)")
    evidence = decision.evidence
    if evidence is None:
        axis.text(0.5, 0.5, "not scored", transform=axis.transAxes, ha="center", va="center", color="0.4")
        return
    scores = evidence.scores()
    for judge, colour in JUDGES.items():
        if judge not in scores:
            continue
        threshold = scores[judge].threshold
        if scores[judge].verdict is None:
            axis.plot([], [], color=colour, linewidth=2.5, alpha=0.7, label=f"{judge} against the whole utterance")
        else:
            label = f"{judge}, least {threshold:+.2f}"
            axis.axhline(threshold, color=colour, linestyle="--", linewidth=0.9, label=label)
        for window in evidence.windows:
            times, score = (window.segment.start, window.segment.end), getattr(window, judge)
            axis.plot(times, (score, score), color=colour, linewidth=2.5, alpha=0.7)
    axis.set_title(_summary(decision, evidence), fontsize=8, loc="left")
    axis.legend(fontsize=7, loc="best")


def _summary(decision: Decision, evidence: Evidence) -> str:
    judged = ((name, score) for name, score in evidence.scores().items() if score.verdict is not None)
    whole = (f"{name} {score.llr:+.2f} ({score.threshold:+.2f})" for name, score in judged)
    fused = "" if decision.voiceid is None else f", VoiceID {decision.voiceid:.3f} ({decision.voiceid_threshold:.3f})"
    return f"whole utterance (threshold): {', '.join(whole)}{fused}"


def _units(axis: Any, units: NDArray[np.int16], codebook: int) -> None:
    axis.set_ylabel(f"units\n(of {codebook})")
    axis.set_ylim(-1, codebook)
    if units.size:
        times = np.arange(len(units)) / UNIT_RATE
        axis.scatter(times, units, c=units, cmap="hsv", s=5, vmin=0, vmax=codebook)
        axis.step(times, units, where="post", color="0.6", linewidth=0.5, zorder=0)
