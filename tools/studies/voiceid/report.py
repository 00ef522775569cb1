"""OUTPUT/report.html: all tables and figures, with versions, seeds and trial counts; and summary.json beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.studies import versions
from tools.studies.results import whole_file, write_json
from tools.studies.voiceid import (
    authentication,
    cost,
    figures,
    fusion,
    generate,
    page,
    score,
    success,
    transform,
    utility,
)
from tools.studies.voiceid.config import STEPS, Study
from tools.studies.voiceid.tables import Table

TITLE = "On-device voice authentication with paralinguistic privacy: a rerun"
MODULES: dict[str, ModuleType] = dict(
    zip(STEPS, (generate, score, success, transform, authentication, fusion, utility, cost), strict=True)
)
"""The measuring steps in their order; each writes OUTPUT/<name>.json and has its own tables."""
CAPTIONS = {
    "attack-success": "Table I as a figure; bars are 95 % intervals.",
    "authentication": "Figure 4; bars are standard deviations over enrolments.",
    "utility": "Table III as a figure; bars are 95 % intervals.",
    "latency": "Table IV as a figure.",
}


def write(study: Study, results: dict[str, dict[str, Any]]) -> Path:
    """Write the report on ``results`` by step; returns its path."""
    made_with = versions.describe(study.models)
    options = json.loads(json.dumps(asdict(study), default=str))
    write_json(study.output / "summary.json", {"study": options, "versions": made_with, "results": results})
    parts = [*_opening(study, results), *(part for name in results for part in _section(study, name, results[name]))]
    parts += [page.heading("Models, versions and options"), page.table(_models(made_with))]
    parts += [page.table(_packages(made_with)), page.verbatim(json.dumps(options, indent=1, ensure_ascii=False))]
    path = study.output / "report.html"
    with whole_file(path) as temporary:
        temporary.write_text(page.page(TITLE, parts), "utf-8")
    return path


def _opening(study: Study, results: dict[str, dict[str, Any]]) -> list[str]:
    missing = [name for name in STEPS if name not in results]
    left_out = f" Left out: {', '.join(missing)}." if missing else ""
    return [
        page.paragraph(
            "The experiments of arXiv 2205.14026 with this project's agent. How each table is made, and how it differs "
            "from the paper's: docs/studies/voiceid.md."
        ),
        page.paragraph(
            f"Seed of every random choice: {study.seed}. Operating point: {study.models.operating_point}.{left_out}"
        ),
    ]


def _section(study: Study, name: str, result: dict[str, Any]) -> list[str]:
    """One step's tables, its figures after the first."""
    first, *rest = MODULES[name].tables(result)
    drawn = [
        page.figure(figures.draw(figure, result, study.output / "figures"), CAPTIONS[figure], figure)
        for figure, (step, _) in figures.FIGURES.items()
        if step == name
    ]
    return [page.heading(first.title), page.table(first, titled=False), *drawn, *map(page.table, rest)]


def _models(made_with: dict[str, Any]) -> Table:
    rows = [[role, card["name"], card["version"], card["sha256"][:16]] for role, card in made_with["models"].items()]
    caption = "The agent's, as their cards name them; the first 16 digits of sha256, all of them in summary.json."
    return Table("Models", caption, ("role", "name", "version", "sha256"), rows)


def _packages(made_with: dict[str, Any]) -> Table:
    rows = [[name, version] for name, version in made_with["packages"].items()]
    rows += [["Python", made_with["python"]], ["code", made_with["commit"] or "not a checkout"]]
    return Table("Versions", f"On {made_with['machine']}. All options follow.", ("package", "version"), rows)
