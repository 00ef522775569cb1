"""The whole study from one TOML file: its lists, attack, vocode, detect, report.

Whatever was done before with the same options is kept, so that an interrupted study goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.studies import cluster
from tools.studies.adversarial.attack import attack_all, report_failures
from tools.studies.adversarial.config import read_study
from tools.studies.adversarial.detect import detect_all
from tools.studies.adversarial.listing import INDEX, make_list
from tools.studies.adversarial.report import report_all
from tools.studies.adversarial.vocode import vocode_all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    study = read_study(arguments.study)
    for listing in study.lists:
        make_list(study.data / INDEX, listing)
    with cluster.workers_for(arguments) as workers:
        if failed := attack_all(study, workers) or vocode_all(study, workers):
            return report_failures(failed)
        detect_all(study, workers)
    print(*report_all(study), sep="\n")
    return 0
