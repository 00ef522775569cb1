"""Try every clip of the attack corpus on the person it is aimed at and on strangers, through the whole pipeline.

OUTPUT/trials.csv holds every trial; tables I and II are made from it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.evaluation.baselines import baselines_of
from tools.evaluation.deciding import Deciding, Verdict
from tools.evaluation.judging import Asking
from tools.evaluation.parallel import Account, each
from tools.evaluation.selection import read_rows, system
from tools.studies.errors import StudyError
from tools.studies.results import digest, kept
from tools.studies.versions import cards
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.generate import ENROLMENT
from tools.studies.voiceid.tables import Table
from tools.studies.voiceid.trials import Trial, write_trials
from tools.train.data.corpus import Item
from voiceid.enrolment.template import Template
from voiceid.models.store import find_model

NET_SPEECH = 8.0
"""What a template is said to rest on, in seconds; nothing depends on it here."""


def step(study: Study) -> dict[str, Any]:
    """Score the corpus, unless trials.csv was made from the same clips with the same models."""
    index = study.output / "attacks" / "index.csv"
    if not index.is_file():
        raise StudyError(f"{index}: no attack corpus; make it with the step 'generate'")
    output = study.output / "trials.csv"
    key = digest(index.read_bytes(), study.models, cards(study.models), study.seed, study.fusion.strangers)
    return kept(study.output / "score.json", key, lambda: _score(study, index, output), beside=(output,))


def _score(study: Study, index: Path, output: Path) -> dict[str, Any]:
    account = Account()
    items = read_rows(index)
    templates = enrol(study, [item for item in items if item.set == ENROLMENT], account)
    plan = plan_trials(items, sorted(templates), study.fusion.strangers, study.seed)
    deciding = Deciding(study.settings, templates, plan, study.seed, study.cache)
    decided = each(deciding, list(plan), jobs=study.jobs, account=account, label="score")
    refuse_failures(account)
    trials = [_trial(item, verdict, index.parent) for item, verdicts in decided for verdict in verdicts]
    write_trials(output, trials)
    return {"trials": len(trials), "templates": len(templates), "files": account.as_json()}


def enrol(study: Study, items: Sequence[Item], account: Account) -> dict[str, Template]:
    """A template of every person's enrolment recordings.

    Raises:
        StudyError: somebody has none that can be used.
    """
    asking = Asking("identity", study.models.identity, study.cache)
    embeddings: dict[str, dict[Item, Any]] = defaultdict(dict)
    for item, embedding in each(asking, items, jobs=study.jobs, account=account, label="enrol"):
        embeddings[item.speaker][item] = embedding
    if without := sorted({item.speaker for item in items} - embeddings.keys()):
        reason = next(iter(account.failed.values()), next(iter(account.dropped), "no reason known"))
        raise StudyError(f"{without[0]}: none of their enrolment recordings can be used ({reason})")
    card = find_model(study.models.identity, "identity").card
    baselines = baselines_of(
        study.models, {name: list(own) for name, own in embeddings.items()}, jobs=study.jobs, cache=study.cache
    )
    return {
        name: Template.create(
            name,
            np.stack(list(own.values())),
            model=card,
            net_speech=NET_SPEECH,
            owner_uid=0,
            baselines=baselines[name],
        )
        for name, own in embeddings.items()
    }


def plan_trials(items: Sequence[Item], names: Sequence[str], strangers: int, seed: int) -> dict[Item, tuple[str, ...]]:
    """The templates that each clip is tried on: the one it is aimed at first, then seeded others."""
    chance = random.Random(seed)
    plan = {}
    for item in items:
        if item.set != ENROLMENT and item.speaker in names:
            others = [name for name in names if name != item.speaker]
            plan[item] = (item.speaker, *chance.sample(others, min(strangers, len(others))))
    return plan


def _trial(item: Item, verdict: Verdict, folder: Path) -> Trial:
    return Trial(
        str(item.path.relative_to(folder)),
        item.set,
        item.kind,
        "" if item.kind == "bonafide" else system(item),
        item.speaker,
        verdict.speaker,
        str(verdict.outcome),
        "+".join(verdict.failed),
        verdict.llr,
    )


def tables(result: dict[str, Any]) -> list[Table]:
    """How many trials there are."""
    files = result["files"]
    rows = [
        ["templates", str(result["templates"])],
        ["clips and enrolment recordings", str(files["chosen"])],
        ["left out", str(sum(files["dropped"].values()))],
        ["failed", str(files["failed"])],
        ["trials", str(result["trials"])],
    ]
    return [Table("Trials", "Each clip on the template it is aimed at and on templates of others.", ("", "n"), rows)]
