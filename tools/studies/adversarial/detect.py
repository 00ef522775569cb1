"""Score recordings and copies, set thresholds on genuine trials alone, and count the adversarial ones above them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.studies import cluster
from tools.studies.adversarial.conditions import Condition, conditions
from tools.studies.adversarial.config import Study, read_study
from tools.studies.adversarial.scores import Floats, Scores, score_all
from tools.studies.cluster import Run
from tools.studies.errors import StudyError
from tools.studies.results import write_json
from tools.studies.versions import software
from tools.train import metrics
from voiceid.models.store import find_model

RESULT = "detection.json"


def detect_all(study: Study, run: Run = map) -> dict[str, Any]:
    """Score all conditions and measure detection; the result is kept in the study's folder.

    Raises:
        StudyError: a step before is not complete, or the genuine trials lack a class.
    """
    genuine_condition, *others = conditions(study)
    genuine = score_all(study, genuine_condition, run)
    if genuine.target.all() or not genuine.target.any():
        raise StudyError(f"{study.trials}: needs trials of both kinds, of the same person (1) and of others (0)")
    limit = metrics.eer_threshold(genuine.plain[genuine.target], genuine.plain[~genuine.target])
    measured = {}
    for condition in others:
        scores = score_all(study, condition, run)
        measured[condition.name] = _options(condition) | _attacked(genuine, scores, limit, study.false_positives)
    result = {
        "card": {"name": study.card, "sha256": find_model(study.card, "identity").card.sha256},
        "genuine": _genuine(genuine, limit, study.false_positives),
        "attacks": measured,
        "versions": software(),
    }
    write_json(study.output / RESULT, result)
    return result


def threshold(genuine: Floats, false_positive: float) -> float:
    """The least variation that at most the share ``false_positive`` of ``genuine`` (n,) exceeds."""
    return -metrics.threshold_at_bpcer(-genuine, false_positive)


def detection_rate(variation: Floats, limit: float) -> dict[str, Any]:
    """Share of ``variation`` (n,) above ``limit``, with counts and Wilson's interval; no rate without trials."""
    detected, trials = int(np.sum(variation > limit)), len(variation)
    if not trials:
        return {"rate": None, "detected": 0, "trials": 0, "ci95": None}
    interval = metrics.wilson_interval(detected, trials)
    return {"rate": detected / trials, "detected": detected, "trials": trials, "ci95": interval}


def area_under_roc(genuine: Floats, adversarial: Floats) -> float:
    """Probability that an adversarial variation exceeds a genuine one, ties counting one half."""
    ordered = np.sort(genuine)
    below = np.searchsorted(ordered, adversarial, side="left") + np.searchsorted(ordered, adversarial, side="right")
    return float(below.mean() / (2 * len(ordered)))


def equal_error_rate(scores: Floats, target: NDArray[np.bool_]) -> float | None:
    """EER of trials of both kinds, above 0.5 where the decisions are turned round; None where there is one kind."""
    return metrics.eer(scores[target], scores[~target]) if target.any() and not target.all() else None


def _options(condition: Condition) -> dict[str, Any]:
    """How the study's own attack was made; nothing where others made it."""
    if condition.attack is None:
        return {}
    return {**asdict(condition.attack), "trials": str(condition.attack.trials), "epsilon": condition.epsilon}


def _genuine(genuine: Scores, limit: float, rates: Sequence[float]) -> dict[str, Any]:
    transforms = {}
    for name in genuine.copied:
        variation = genuine.variation(name)
        transforms[name] = {
            "eer": equal_error_rate(genuine.copied[name], genuine.target),
            "variation": {str(q): float(np.quantile(variation, q)) for q in (0.5, 0.9, 0.95, 0.99, 1.0)},
            "thresholds": {str(rate): _threshold(variation, rate) for rate in rates},
        }
    return {**_counts(genuine), "eer": equal_error_rate(genuine.plain, genuine.target), "eer_threshold": limit} | {
        "transforms": transforms
    }


def _threshold(variation: Floats, rate: float) -> dict[str, Any]:
    """``supported``: there are trials enough for one to lie above the threshold."""
    value = threshold(variation, rate)
    realised = float(np.mean(variation > value))
    return {"value": value, "false_positive_rate": realised, "supported": rate * len(variation) >= 1}


def _attacked(genuine: Scores, scores: Scores, limit: float, rates: Sequence[float]) -> dict[str, Any]:
    target = scores.target
    passed = scores.plain >= limit
    transforms = {}
    for name in scores.copied:
        known, variation = genuine.variation(name), scores.variation(name)
        found = {}
        for rate in rates:
            least = threshold(known, rate)
            parts = {"all": variation, "target": variation[target], "nontarget": variation[~target]}
            found[str(rate)] = {kind: detection_rate(part, least) for kind, part in parts.items()}
        transforms[name] = {
            "eer": equal_error_rate(scores.copied[name], target),
            "auc": area_under_roc(known, variation),
            "detection": found,
        }
    known_snr = scores.snr_db[np.isfinite(scores.snr_db)]
    return {
        **_counts(scores),
        "snr_db": {"median": float(np.median(known_snr)), "least": float(known_snr.min())} if len(known_snr) else None,
        "eer": equal_error_rate(scores.plain, target),
        "at_eer_threshold": {
            "target_rejected": float(np.mean(~passed[target])) if target.any() else None,
            "nontarget_accepted": float(np.mean(passed[~target])) if not target.all() else None,
        },
        "transforms": transforms,
    }


def _counts(scores: Scores) -> dict[str, int]:
    return {"n_target": int(scores.target.sum()), "n_nontarget": int((~scores.target).sum())}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file")
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    study = read_study(arguments.study)
    with cluster.workers_for(arguments) as workers:
        detect_all(study, workers)
    print(study.output / RESULT)
    return 0
