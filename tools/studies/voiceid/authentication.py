"""Figure 4: how often people are still recognised by their transformed voices.

As in the paper: everybody is enrolled again and again from other untransformed recordings; each time the threshold is
that of the equal error rate on untransformed recordings; scores are cosines; an authentication succeeds at or above the
threshold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.judging import Asking
from tools.evaluation.parallel import Account, each
from tools.evaluation.report import card_summary
from tools.evaluation.selection import read_rows
from tools.studies.errors import StudyError
from tools.studies.results import digest, kept
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.people import choose
from tools.studies.voiceid.tables import Table, spread
from tools.studies.voiceid.transform import RAW, shown
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.models.store import find_model
from voiceid.scoring.identity import direction

Embeddings = NDArray[np.float32]
Floats = NDArray[np.float64]


def step(study: Study) -> dict[str, Any]:
    """Success rates by identity card and transformation."""
    index = study.transformed
    models = study.transforms.identities or (study.models.identity,)
    cards = [find_model(model, "identity").card for model in models]
    options = (study.people, study.transforms.enrolments, study.seed)
    key = digest(index.read_bytes(), cards, options)
    return kept(study.output / "authentication.json", key, lambda: _measure(study, index, models))


def _measure(study: Study, index: Path, models: Sequence[str]) -> dict[str, Any]:
    items, people = read_rows(index), choose(study).people
    tried = {item.path.resolve() for item in items if item.set == RAW}
    pools = {p.name: [i for i in p.recordings if i.path.resolve() not in tried] for p in people}
    result: dict[str, Any] = {
        "people": len(people),
        "enrolments": study.transforms.enrolments,
        "enrolment_recordings": study.people.enrolment,
        "cards": {},
    }
    for model in models:
        account = Account()
        asking = Asking("identity", model, study.cache)
        pooled = each(
            asking, [i for pool in pools.values() for i in pool], jobs=study.jobs, account=account, label="enrol"
        )
        asked = each(asking, items, jobs=study.jobs, account=account, label="authenticate")
        refuse_failures(account)
        embedded = _by_speaker(pooled)
        figures = repeat(
            {name: embedded[name] for name in pools},
            _by_set(asked),
            study.transforms.enrolments,
            study.people.enrolment,
            study.seed,
        )
        card = find_model(model, "identity").card
        result["cards"][model] = {"card": card_summary(card), "files": account.as_json(), **figures}
    return result


def _by_speaker(embedded: Sequence[tuple[Item, Embeddings]]) -> defaultdict[str, list[Embeddings]]:
    groups: defaultdict[str, list[Embeddings]] = defaultdict(list)
    for item, embedding in embedded:
        groups[item.speaker].append(embedding)
    return groups


def _by_set(embedded: Sequence[tuple[Item, Embeddings]]) -> dict[str, dict[str, list[Embeddings]]]:
    sets: dict[str, list[tuple[Item, Embeddings]]] = defaultdict(list)
    for item, embedding in embedded:
        sets[item.set].append((item, embedding))
    return {name: _by_speaker(own) for name, own in sets.items()}


def repeat(
    pools: Mapping[str, Sequence[Embeddings]],
    tests: Mapping[str, Mapping[str, Sequence[Embeddings]]],
    enrolments: int,
    size: int,
    seed: int,
) -> dict[str, Any]:
    """Enrol everybody ``enrolments`` times from ``size`` embeddings of their pool and try all of ``tests``.

    ``tests`` holds unit embeddings (d,) by transformation and speaker, those of :data:`RAW` among them. Returns the
    mean and deviation over enrolments of the EER, and of each transformation's success rate (averaged over people).

    Raises:
        StudyError: somebody's pool is smaller than an enrolment, or nobody's raw recordings could be used.
    """
    names = sorted(pools)
    if small := [name for name in names if len(pools[name]) < size]:
        raise StudyError(f"{small[0]}: {len(pools[small[0]])} recordings to enrol from; an enrolment needs {size}")
    rng = np.random.default_rng(seed)
    eers: list[float] = []
    successes: dict[str, list[float]] = {name: [] for name in tests}
    for _ in range(enrolments):
        drawn = [[pools[name][i] for i in rng.permutation(len(pools[name]))[:size]] for name in names]
        templates = np.stack([direction(np.stack(own)) for own in drawn])
        target, nontarget = _trials(names, templates, tests[RAW])
        eers.append(metrics.eer(target, nontarget))
        threshold = metrics.eer_threshold(target, nontarget)
        for transformation, speakers in tests.items():
            scores = [_cosines(own, templates)[:, names.index(name)] for name, own in speakers.items()]
            successes[transformation].append(float(np.mean([np.mean(own >= threshold) for own in scores])))
    return {
        "eer": _spread(eers),
        "success": {
            name: {**_spread(values), "recordings": sum(map(len, tests[name].values())), "people": len(tests[name])}
            for name, values in successes.items()
        },
    }


def _trials(
    names: Sequence[str], templates: Embeddings, tests: Mapping[str, Sequence[Embeddings]]
) -> tuple[Floats, Floats]:
    """Scores of everybody's tests with their own template (targets) and with all others."""
    scores = {name: _cosines(own, templates) for name, own in tests.items()}
    target = [own[:, names.index(name)] for name, own in scores.items()]
    nontarget = [np.delete(own, names.index(name), axis=1).ravel() for name, own in scores.items()]
    return np.concatenate(target), np.concatenate(nontarget)


def _cosines(embeddings: Sequence[Embeddings], templates: Embeddings) -> Floats:
    """Of unit vectors (d,) with ``templates`` (m, d): (n, m)."""
    return np.stack(embeddings).astype(np.float64) @ templates.T.astype(np.float64)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values))}


def tables(result: dict[str, Any]) -> list[Table]:
    """Success rates behind figure 4."""
    cards = result["cards"]
    rows = []
    names = list(next(iter(cards.values()))["success"])
    for name in names:
        parts = [part["success"].get(name) for part in cards.values()]
        counted = next(part for part in parts if part)
        rows.append(
            [shown(name), *("-" if part is None else spread(part) for part in parts), str(counted["recordings"])]
        )
    rows.append(["EER of untransformed recordings", *(spread(part["eer"]) for part in cards.values()), ""])
    caption = (
        f"Per cent of authentications that succeed, averaged over {result['people']} people; mean and standard "
        f"deviation over {result['enrolments']} enrolments of {result['enrolment_recordings']} recordings each. "
        "Cosine scores; threshold of the equal error rate on untransformed recordings."
    )
    return [Table("Figure 4: authentication with transformed voices", caption, ("%", *cards, "recordings"), rows)]
