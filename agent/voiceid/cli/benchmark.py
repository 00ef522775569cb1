"""``voiceid benchmark``: what a decision costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from voiceid.cli.context import Context, command_app, context_of
from voiceid.cli.output import plain, progress

if TYPE_CHECKING:
    from voiceid.benchmark.run import Report

app = command_app()


@app.command()
def benchmark(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES",
            help="Recordings of one person speaking; default: the corpus in $VOICEID_CORPUS.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two lengths, few repeats: under half a minute.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A previous run's --json, to show what changed.", show_default=False),
    ] = None,
    reference_onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Another model to time in turn, as the official AASIST-L.", show_default=False
        ),
    ] = None,
    service: Annotated[
        bool, typer.Option("--service", help="Measure a resident daemon instead, on speech in real time.")
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=0,
            max=10_000,
            help="With --service: also use it for so much audio and watch its memory.",
            show_default=False,
        ),
    ] = 0.0,
    speed: Annotated[
        float,
        typer.Option(metavar="X", min=0.1, max=100, help="With --minutes: audio comes X times faster than real time."),
    ] = 1.0,
) -> None:
    """Measure every stage for 1, 2, 3, 5 and 10 s of real speech, with one thread and with all.

    Latency, processor time, number of features, size on disk, memory of each model, peak memory and cold start. The
    quality gate lets short speech through here, so that it is judged at all.

    Examples:

    voiceid benchmark me-1.wav me-2.wav --json > before.json

    voiceid benchmark me-1.wav me-2.wav --compare before.json

    With --service, a daemon of its own with a temporary vault hears commands through a pipe in the microphone's place:
    time from the call to the first event and from the end of speech to the answer, processor time and memory while
    nobody speaks, claims a second, lost audio.

    voiceid benchmark --service me-1.wav me-2.wav me-3.wav --minutes 60 --speed 6 --json
    """
    context = context_of(ctx)
    if service and (compare or reference_onnx):
        raise typer.BadParameter("--service cannot be combined with --compare or --reference-onnx")
    if minutes and not service:
        raise typer.BadParameter("--minutes needs --service")
    if speed != 1 and not minutes:
        raise typer.BadParameter("--speed needs --minutes")
    if service:
        _service(context, files or [], quick=quick, minutes=minutes, speed=speed)
        return
    settings = context.settings()
    with progress("starting") as bar:
        from voiceid.benchmark.run import compare as compare_reports
        from voiceid.benchmark.run import count_steps, read_report, run_benchmark
        from voiceid.benchmark.speech import find_speech

        previous = read_report(compare) if compare else None
        bar.set_total(count_steps(quick=quick) + 1)
        report = run_benchmark(
            settings, find_speech(files or []), quick=quick, reference_onnx=reference_onnx, on_step=bar.advance
        )
    ratios = compare_reports(report, previous) if previous else None
    context.emit({**plain(report), **({"compared": ratios} if ratios else {})}, *_render(report, ratios))


def _service(context: Context, files: list[Path], *, quick: bool, minutes: float, speed: float) -> None:
    settings = context.settings()
    with progress("starting") as bar:
        from voiceid.benchmark.service import run_service_benchmark
        from voiceid.benchmark.speech import find_speech
        from voiceid.cli.benchmark_service import render

        bar.set_total(5 + bool(minutes))
        report = run_service_benchmark(
            settings, find_speech(files), quick=quick, minutes=minutes, speed=speed, on_step=bar.advance
        )
    context.emit(plain(report), *render(report))


def _render(report: Report, ratios: dict[str, float] | None) -> list[RenderableType]:
    lines: list[RenderableType] = [_latency(report), "", _stages(report), "", _models(report), "", _facts(report)]
    if ratios:
        table = Table("compared with before", "now / before", box=None)
        for key, ratio in ratios.items():
            table.add_row(key, Text(f"{ratio:.2f}", style="green" if ratio < 0.95 else "red" if ratio > 1.05 else ""))
        lines += ["", table]
    return lines


def _latency(report: Report) -> Table:
    table = Table("speech", "threads", "p50 ms", "p95 ms", "CPU ms", "real-time factor", box=None)
    for run in report.runs:
        total = run.total
        values = (f"{total.p50_ms:.0f}", f"{total.p95_ms:.0f}", f"{total.cpu_ms:.0f}", f"{total.rtf:.3f}")
        table.add_row(f"{run.seconds:g} s", str(run.threads), *values)
    return table


def _stages(report: Report) -> Table:
    from voiceid.benchmark.run import COMMAND_SECONDS

    run = report.run(COMMAND_SECONDS, 1)
    table = Table("stage (3 s, 1 thread)", "features", "p50 ms", "p95 ms", "CPU ms", box=None)
    for name, stage in run.stages.items():
        cost = stage.cost
        table.add_row(name, str(stage.features), f"{cost.p50_ms:.1f}", f"{cost.p95_ms:.1f}", f"{cost.cpu_ms:.1f}")
    return table


def _models(report: Report) -> Table:
    table = Table("model", "role", "disk MiB", "memory MiB", "while running MiB", box=None)
    for model in report.models:
        sizes = (model.disk_bytes / 2**20, model.added_rss_mib, model.running_rss_mib)
        table.add_row(model.name, model.role, f"{sizes[0]:.2f}", f"{sizes[1]:.1f}", f"{sizes[2]:.1f}")
    total = sum(model.disk_bytes for model in report.models) / 2**20
    table.add_row("whole process", "", f"{total:.2f}", "", f"{report.cold_start.peak_rss_mib:.1f} (peak)")
    return table


def _facts(report: Report) -> Text:
    cold, machine = report.cold_start, report.machine
    text = Text(
        f"cold start {cold.process_ms:.0f} ms: imports {cold.start_ms:.0f}, models {cold.load_ms:.0f}, "
        f"first decision {cold.first_decision_ms:.0f}\n"
    )
    if report.reference:
        reference = report.reference
        text.append(
            f"CPU on 3 s, one thread: decision and units {reference.agent_cpu_ms:.0f} ms, {reference.file} alone "
            f"{reference.cpu_ms:.0f} ms: {reference.ratio:.2f} of it\n"
        )
    text.append(f"{report.budget}\n", style="bold")
    text.append(
        f"load average {machine.load} at the start; Python {machine.python}, ONNX Runtime {machine.onnxruntime}"
    )
    return text
