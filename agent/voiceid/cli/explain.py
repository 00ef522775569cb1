"""``voiceid explain``: how a decision comes about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from voiceid.cli.arguments import read_recording
from voiceid.cli.context import command_app, context_of
from voiceid.cli.decisions import decision_json, headline, reasons, scores, timings
from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.loading import load_pipeline, open_vault
from voiceid.cli.output import progress
from voiceid.cli.output_path import check_output

if TYPE_CHECKING:
    from voiceid.pipeline import Pipeline
    from voiceid.types import Decision, Utterance, Waveform

app = command_app()

CODEBOOK = 100
PICTURES = (".png", ".svg", ".pdf")


@app.command()
def explain(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recording: WAV, FLAC, OGG or MP3.", show_default=False)],
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="The user it is said to be.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT.png", help="Draw it here; needs the extra voiceid\\[plot].", show_default=False),
    ] = None,
) -> None:
    """Show every judge's score, threshold and reason for FILE, and draw them over time with --plot.

    Without --user each part of the utterance is compared with the whole of it, and what comes before and after
    every possible change of voice with each other; nothing can be accepted, and what needs an enrolled speaker is
    shown as not compared (in JSON: "passed": null). The exit code is 0 whatever the outcome.

    Example:

    voiceid explain command.wav --user ada --plot command.png
    """
    context = context_of(ctx)
    settings = context.settings()
    from voiceid.plotting import check_matplotlib, plot_decision

    if plot is not None:
        check_matplotlib()
        check_output(plot, context, recording=file, suffixes=PICTURES)
    template = open_vault(settings).load_template(user) if user else None
    waveform = read_recording(file)
    pipeline = load_pipeline(settings)
    with progress("judging"):
        if template is None:
            decision, utterance = _against_itself(pipeline, waveform)
        else:
            decision, utterance = pipeline.decide(waveform, template), pipeline.prepare(waveform)
        if plot is not None:
            units = pipeline.units(utterance, CODEBOOK)
            title = f"{file.name}{f' as {user}' if user else ''}"
            plot_decision(plot, utterance=utterance, decision=decision, units=units, codebook=CODEBOOK, title=title)
    context.emit(
        decision_json(decision, name=user, plot=plot) | {"exit_code": int(ExitCode.ACCEPTED)},
        headline(decision, user or "no user named"),
        reasons(decision),
        scores(decision),
        timings(decision),
        Text(f"drawn: {plot}" if plot else ""),
    )


def _against_itself(pipeline: Pipeline, waveform: Waveform) -> tuple[Decision, Utterance]:
    """The decision on the utterance alone; not enrolled, unless a check failed."""
    from voiceid.scoring.policy import decide, inconclusive
    from voiceid.stopwatch import Stopwatch
    from voiceid.types import Outcome

    utterance = pipeline.prepare(waveform)
    if not utterance.quality.usable:
        return inconclusive(utterance.quality), utterance
    watch = Stopwatch()
    own = pipeline.judges.hear(utterance, watch)
    judgement = pipeline.judges.examine(utterance, own, None, watch)
    decision = decide(utterance.quality, judgement.evidence, 1.0, 0.0)  # the fusion leans on identity
    decision = replace(decision, voiceid=None, voiceid_threshold=None, timings=watch.timings())
    if decision.outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
        reasons = ["no user named: identity compares each part with the whole utterance"]
        if pipeline.judges.consistency.alone is None:
            reasons.append(
                "whether the voice changes within it, only --user tells: this identity card has no measure without"
            )
        decision = replace(decision, outcome=Outcome.NOT_ENROLLED, reasons=tuple(reasons))
    return decision, utterance
