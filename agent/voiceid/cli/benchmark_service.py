"""How ``voiceid benchmark --service`` shows its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from voiceid.benchmark.service import ServiceReport, Soak


def render(report: ServiceReport) -> list[RenderableType]:
    """The report for people."""
    answering = report.answering
    table = Table(f"verify, {answering.commands} commands of 3 s", "p50 ms", "p95 ms", "most ms", box=None)
    for name, spread in (
        ("call to first event", answering.to_first_event),
        ("last word to endpoint", answering.to_endpoint),
        ("endpoint to answer", answering.to_answer),
    ):
        table.add_row(name, f"{spread.p50_ms:.0f}", f"{spread.p95_ms:.0f}", f"{spread.most_ms:.0f}")
    lines: list[RenderableType] = [table, "", _facts(report)]
    if report.soak:
        lines += ["", _soak(report.soak)]
    return lines


def _facts(report: ServiceReport) -> Text:
    answering, listening = report.answering, report.listening
    answers = ", ".join(f"{count} {answer}" for answer, count in sorted(answering.answers.items()))
    text = Text(
        f"answers: {answers}; processor time of the daemon {_known(answering.cpu_ms, '.0f')} ms a command, "
        f"{_known(answering.waited_ms, '.0f')} ms more waiting for a processor\n"
    )
    share = None if listening.cpu_share is None else 100 * listening.cpu_share
    text.append(
        f"listening to silence ({listening.activation}) for {listening.seconds:.0f} s: {_known(share, '.1f')} % of a "
        f"core, {_known(listening.rss_mib, '.0f')} MiB resident; peak {_known(report.peak_rss_mib, '.0f')} MiB\n"
        f"{report.claims_per_second:.0f} claims and releases a second; "
        f"{report.frames_dropped} of {report.frames} frames dropped, longest wait {report.longest_wait_ms:.0f} ms\n"
    )
    return text.append(report.caveat, style="bold")


def _soak(soak: Soak) -> Text:
    rss, slope = soak.rss_mib, soak.rss_slope_mib_per_hour
    return Text(
        f"{soak.minutes:g} minutes at {soak.speed:g} times real time, "
        f"{soak.commands} commands, {100 * soak.cpu_share:.1f} % of a core: "
        f"memory {rss[0]:.1f} to {rss[-1]:.1f} MiB, {slope:+.2f} MiB an hour after warming up; "
        f"descriptors {soak.descriptors_first} to {soak.descriptors_last}, "
        f"{soak.descriptors_slope_per_hour:+.1f} an hour"
    )


def _known(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
