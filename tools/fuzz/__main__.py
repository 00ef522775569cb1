"""``python -m tools.fuzz``: fuzz all targets one after the other for so much processor time, and write what came of it.

Needs the extra ``fuzz``. The corpus is kept, so that the next run goes on from it. Exit status 1 means findings: each
lies in the corpus' folder as ``TARGET-crash-...``, and ``python -m tools.fuzz.worker TARGET FOLDER 1 FILE`` repeats it.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.evaluation.memory import cache_folder
from tools.fuzz.target import TARGETS
from tools.output import output, write_text
from voiceid import __version__
from voiceid.benchmark.machine import describe_machine

MAX_FINDINGS = 5
"""Of one target, after which it is left."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one target."""

    target: str
    executions: int
    cpu_seconds: float
    """Starting included."""
    coverage: int
    """Edges of instrumented code that were reached."""
    corpus: int
    """Inputs kept for reaching something new."""
    findings: tuple[str, ...]


def fuzz(target: str, seconds: float, folder: Path) -> Outcome:
    """Fuzz ``target`` for ``seconds`` of processor time, beginning anew after each finding."""
    corpus = folder / target
    corpus.mkdir(parents=True, exist_ok=True)
    spent, executions, coverage = 0.0, 0, 0
    findings: list[str] = []
    ended = False
    while spent < seconds and len(findings) < MAX_FINDINGS and not ended:
        log, before = folder / f"{target}.log", _cpu_of_children()
        command = [sys.executable, "-m", "tools.fuzz.worker", target, str(corpus), str(seconds - spent)]
        with log.open("wb") as stream:
            status = subprocess.run([*command, f"-artifact_prefix={folder}/{target}-"], stderr=stream).returncode
        said = log.read_text("utf-8", "replace")
        spent += _cpu_of_children() - before
        executions += int((re.findall(r"stat::number_of_executed_units: (\d+)", said) or ["0"])[-1])
        coverage = max([coverage, *map(int, re.findall(r"cov: (\d+)", said))])
        ended = "exiting as requested" in said
        if not ended:
            finding = re.search(r"=== Uncaught Python exception: ===\n(.*)\n", said)
            findings.append(finding[1] if finding else f"exit status {status}: {said.strip().splitlines()[-1:]}")
    return Outcome(target, executions, round(spent, 1), coverage, len(list(corpus.iterdir())), tuple(findings))


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--seconds", type=float, default=90, help="processor time for each (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "fuzz", help="corpus, logs and findings")
    parser.add_argument("--json", type=output, metavar="FILE", help="write the outcome, keeping other targets' there")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.targets) - set(TARGETS)):
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    found = False
    for target in arguments.targets or TARGETS:
        outcome = fuzz(target, arguments.seconds, arguments.folder)
        print(f"{target}: {outcome.executions} executions, {outcome.cpu_seconds} s, {outcome.coverage} edges")
        print(*outcome.findings, sep="\n", end="\n" if outcome.findings else "")
        if arguments.json:
            _keep(outcome, arguments.json)
        found |= bool(outcome.findings)
    return int(found)


def _keep(outcome: Outcome, path: Path) -> None:
    former = json.loads(path.read_text("utf-8"))["targets"] if path.exists() else []
    targets = [entry for entry in former if entry["target"] != outcome.target] + [asdict(outcome)]
    machine = asdict(describe_machine())
    table = {"version": __version__, "machine": machine, "targets": sorted(targets, key=lambda t: str(t["target"]))}
    write_text(path, json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
