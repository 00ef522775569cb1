"""Run every measure of the models and write docs/reports/<name>.json and .md: ``python tools/report.py``.

Each measure is a command of its own, whose JSON is kept under the cache; measures already made with the same models are
not made again (``--again`` makes them). What fails is reported as missing, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.evaluation.det import AXES, curves, draw
from tools.evaluation.memory import cache_folder
from tools.evaluation.report import as_json
from tools.evaluation.report_page import page
from voiceid.models.store import shipped_cards

REPOSITORY = Path(__file__).resolve().parents[1]
READ = "ls-test-clean"
SPEAKERS = "ls-test-clean,vctk-yourtts-gt,mls-pt-yourtts-gt,commonvoice-yourtts-gt"
ATTACKS = "assem-vc,demo-arctic,demo-hifigan,demo-stargan,demo-vits,tts-engines"
REPLAYS = "replay-voices,replay-fakebob-ota"
ADVERSARIAL = "adv-fakebob,adv-uap"
CONDITIONS = "1s,2s,3s,5s,3s@20dB,3s@10dB,3s@5dB,3s@0dB"
TEST = ("--split", "test")


@dataclass(frozen=True, slots=True)
class Measure:
    """One command; ``{out}`` stands for the JSON it writes, ``{work}`` for a folder that is kept, ``{reference}`` for
    ``$VOICEID_REFERENCE``."""

    name: str
    command: tuple[str, ...]
    to_stdout: bool = False
    """The command prints its JSON instead of writing it."""


def evaluate(name: str, *arguments: str) -> Measure:
    """A measure by ``tools/evaluate.py``."""
    return Measure(name, ("python", "tools/evaluate.py", *arguments, "--json", "{out}"))


MEASURES = (
    evaluate("verification-3s", "verification", *TEST, "--sets", READ, "--seconds", "3"),
    evaluate("verification-2s", "verification", *TEST, "--sets", READ, "--seconds", "2"),
    evaluate("verification-full", "verification", *TEST, "--sets", READ, "--conditions", CONDITIONS),
    evaluate("verification-noise", "verification", *TEST, "--sets", READ, "--seconds", "3", "--snr", "10"),
    evaluate("verification-all", "verification", *TEST, "--sets", SPEAKERS),
    evaluate("teachers", "teachers", *TEST, "--sets", READ, "--jobs", "1"),
    evaluate("spoofing", "spoofing", *TEST, "--sets", f"{SPEAKERS},picovoice-commands,{ATTACKS}"),
    evaluate("spoofing-adversarial", "spoofing", *TEST, "--sets", f"{READ},{ADVERSARIAL}", "--kinds", "adversarial"),
    Measure("replay-index", ("python", "-m", "tools.train.data.replay_index", "{work}/replay", "--pairs", "400")),
    evaluate("liveness-simulated", "liveness", "--index", "{work}/replay/index.csv"),
    evaluate("liveness-real", "liveness", *TEST, "--sets", f"{SPEAKERS},picovoice-commands,{REPLAYS}"),
    Measure("void-asvspoof2017", ("python", "-m", "tools.train.liveness", "asvspoof2017", "--report", "{out}")),
    evaluate(
        "decision",
        "decision",
        *TEST,
        "--sets",
        f"{SPEAKERS},{ATTACKS},{REPLAYS},{ADVERSARIAL}",
        *("--seconds", "3", "--splices", "200", "--replays", "200"),
    ),
    evaluate("fusion", "fusion", *TEST, "--combinations", "120000"),
    evaluate("units", "units", *TEST, "--sets", READ, "--limit", "200"),
    Measure("keys", ("python", "-m", "tools.evaluation.keys", "{out}")),
    Measure("import", ("python", "-m", "tools.evaluation.imports", "{out}")),
    Measure(
        "official-aasist-l",
        ("python", "tools/export_onnx.py", "spoofing", "{reference}/aasist/AASIST-L.pth", "-o", "{work}/aasist-l.onnx"),
    ),
    Measure(
        "benchmark", ("voiceid", "benchmark", "--json", "--reference-onnx", "{work}/aasist-l.onnx"), to_stdout=True
    ),
)

FIGURES = {
    "det-identity.svg": (
        "Identity",
        {
            "verification-3s": "3 s",
            "verification-2s": "2 s",
            "verification-full": "whole utterances",
            "verification-noise": "3 s in noise at 10 dB",
        },
    ),
    "det-spoofing.svg": ("Spoofing", {"spoofing": "all"}),
    "det-liveness.svg": ("Liveness, simulated replays", {"liveness-simulated": "all"}),
}
"""Detection-error-trade-off curves: title, and measures with their labels; one measure alone shows its groups."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="v1", help="name of the report (default v1)")
    parser.add_argument(
        "--only", nargs="+", metavar="MEASURE", choices=[m.name for m in MEASURES], help="make only these anew"
    )
    parser.add_argument("--again", action="store_true", help="make measures anew that exist for these models")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "docs" / "reports")
    options = parser.parse_args(arguments)
    work = cache_folder() / "report"
    work.mkdir(parents=True, exist_ok=True)
    models = hashlib.sha256(b"".join(path.read_bytes() for path in shipped_cards())).hexdigest()[:12]
    results: dict[str, Any] = {}
    for measure in MEASURES:
        out = work / f"{measure.name}-{models}.json"
        wanted = options.only is None or measure.name in options.only
        if wanted and (options.again or options.only or not out.exists()):
            run(measure, out, work)
        if out.exists():
            results[measure.name] = {"command": shown(measure), "result": json.loads(out.read_text("utf-8"))}
    options.output.mkdir(parents=True, exist_ok=True)
    report = {"schema": 1, "cards": [json.loads(p.read_text("utf-8")) for p in shipped_cards()], "measures": results}
    (options.output / f"{options.name}.json").write_text(without_paths(as_json(report)), "utf-8")
    figures = draw_figures(results, options.output)
    (options.output / f"{options.name}.md").write_text(page(report, figures), "utf-8")
    missing = [m.name for m in MEASURES if m.name not in results]
    print(f"{options.output / options.name}.md written; missing: {', '.join(missing) or 'nothing'}")
    return 1 if missing else 0


def draw_figures(results: dict[str, Any], folder: Path) -> list[str]:
    """Draw those of :data:`FIGURES` whose measures have curves into ``folder``; returns their names."""
    drawn = []
    for name, (title, measures) in FIGURES.items():
        found = {
            label: list(curves(results[measure]["result"], label))
            for measure, label in measures.items()
            if measure in results
        }
        shown = [curve for group in found.values() for curve in (group if len(measures) == 1 else group[:1])]
        if shown:
            command = next(results[measure]["result"]["command"] for measure in measures if measure in results)
            draw(folder / name, shown, title=title, axes=AXES[command])
            drawn.append(name)
    return drawn


def without_paths(text: str) -> str:
    """``text`` with the folders of this machine replaced by the variables that name them."""
    folders = {"$VOICEID_CACHE/evaluate": str(cache_folder())}
    folders |= {
        f"${name}": os.environ[name] for name in ("VOICEID_CORPUS", "VOICEID_REFERENCE") if os.environ.get(name)
    }
    for variable, folder in folders.items():
        text = text.replace(folder.rstrip("/"), variable)
    return text


def run(measure: Measure, out: Path, work: Path) -> None:
    """Run one measure; a failure leaves no JSON and is told on stderr."""
    print(f"== {shown(measure)}", file=sys.stderr, flush=True)
    start = time.monotonic()
    command = [
        part.format(out=out, work=work, reference=os.environ.get("VOICEID_REFERENCE", "")) for part in measure.command
    ]
    command[0] = str(Path(sys.executable).parent / command[0])
    done = subprocess.run(command, cwd=REPOSITORY, env={**os.environ}, stdout=subprocess.PIPE, text=True, check=False)
    (work / f"{measure.name}.txt").write_text(done.stdout, "utf-8")
    if done.returncode == 0 and measure.to_stdout:
        out.write_text(done.stdout, "utf-8")
    elif done.returncode == 0 and not out.exists():
        out.write_text(json.dumps({"printed": done.stdout.strip()}), "utf-8")
    if done.returncode:
        print(f"{measure.name}: exit status {done.returncode}", file=sys.stderr)
    print(f"   {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def shown(measure: Measure) -> str:
    """The command as a reader would type it."""
    values = {
        "out": f"{measure.name}.json",
        "work": "$VOICEID_CACHE/evaluate/report",
        "reference": "$VOICEID_REFERENCE",
    }
    return " ".join(shlex.quote(part.format(**values)).replace("'", "") for part in measure.command)


if __name__ == "__main__":
    raise SystemExit(main())
