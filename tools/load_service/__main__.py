"""Put many clients, some of them hostile, on a daemon of its own, and say whether all was well (exit status 0)."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tools.load_service.run import LoadReport, run_load
from tools.output import output, write_text
from voiceid.benchmark.speech import find_speech
from voiceid.errors import VoiceIdError
from voiceid.settings import load_settings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.load_service", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="recordings of one person; default: $VOICEID_CORPUS")
    parser.add_argument("--clients", type=int, default=200, help="at once (default: %(default)s)")
    parser.add_argument("--hostile", type=float, default=0.2, help="share of them (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: %(default)s)")
    parser.add_argument("--json", type=output, metavar="FILE", help="write the report")
    arguments = parser.parse_args()
    if arguments.clients < 2 or not 0 <= arguments.hostile <= 0.9 or arguments.seconds <= 0:
        parser.error("needs at least two clients, a share of 0 to 0.9, and some time")
    try:
        report = run_load(
            load_settings(),
            find_speech(arguments.files),
            clients=arguments.clients,
            hostile=round(arguments.hostile * arguments.clients),
            seconds=arguments.seconds,
        )
    except VoiceIdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        write_text(arguments.json, json.dumps(asdict(report), indent=1) + "\n")
    _show(report)
    return int(bool(report.faults))


def _show(report: LoadReport) -> None:
    rss, descriptors = ", ".join(f"{mib:.1f}" for mib in report.rss_mib), ", ".join(map(str, report.descriptors))
    for line in (
        f"{report.clients} clients, {report.hostile} of them hostile, {report.seconds:g} s",
        f"{report.requests} answers, ms: p50 {report.p50_ms:.0f}, p95 {report.p95_ms:.0f}, most {report.most_ms:.0f}",
        f"refused: {report.refused}; unanswered: {report.unanswered}; spoken: {report.spoken}",
        f"hostile connections: {report.attacks}",
        f"MiB resident at first, warm, at last, peak: {rss}; descriptors at first, warm, at last: {descriptors}",
        f"{report.frames_dropped} of {report.frames} frames dropped; longest wait {report.longest_wait_ms:.0f} ms",
        *(report.faults or ("all was well",)),
    ):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
