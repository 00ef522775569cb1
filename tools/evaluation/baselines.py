"""What the detectors score of enrolments, so that a measurement can judge relative to owners as the agent does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tools.evaluation.judging import Asking
from tools.evaluation.parallel import Account, each
from tools.train.data.corpus import Item
from voiceid.models.store import find_model
from voiceid.scoring.owner import Baseline, first_of_each
from voiceid.settings import ModelSettings


def baselines_of(
    models: ModelSettings, enrolments: Mapping[str, Sequence[Item]], *, jobs: int, cache: bool
) -> dict[str, tuple[Baseline, ...]]:
    """What spoofing and liveness of ``models`` score of each speaker's utterances, which have been embedded before."""
    items = list(dict.fromkeys(item for own in enrolments.values() for item in own))
    found: dict[str, list[Baseline]] = {speaker: [] for speaker in enrolments}
    for role, reference in (("spoofing", models.spoofing), ("liveness", models.liveness)):
        card = find_model(reference, role).card  # type: ignore[arg-type]
        asking = Asking(role, reference, cache)  # type: ignore[arg-type]
        raw = dict(each(asking, items, jobs=jobs, account=Account(), label=f"enrol, {role}"))
        for speaker, own in enrolments.items():
            scores = [float(raw[item][0]) for item in own if item in raw]
            found[speaker].append(Baseline.of(card, float(np.mean(scores)), len(scores)))
    return {speaker: first_of_each(own) for speaker, own in found.items()}
