"""Table II: five classifiers on the three judges' scores, by the paper's protocol and by folds that share nothing.

Scores are those of Table I's clips. A partially spoofed command is left out: its three scores say little of the two
voices in it, which is why the agent has a fourth judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tools.evaluation.fusion_table import FOLDS, SVM_TRIALS, cross_validate, honest_folds, paper_folds
from tools.studies.errors import StudyError
from tools.studies.results import digest, kept
from tools.studies.voiceid.config import Study
from tools.studies.voiceid.tables import Table, spread
from tools.studies.voiceid.trials import Trial, read_trials
from tools.train.data.fusion_set import FusionTrial

COLUMNS = ("accuracy", "precision", "recall", "f1", "balanced_accuracy")
PAPER, DISJOINT = "paper_protocol", "disjoint_protocol"


def step(study: Study) -> dict[str, Any]:
    """Cross-validate both protocols."""
    path = study.output / "trials.csv"
    trials = fusion_trials(read_trials(path))
    key = digest(path.read_bytes(), study.fusion, study.seed)
    return kept(study.output / "fusion.json", key, lambda: measure(trials, study.fusion.combinations, study.seed))


def fusion_trials(trials: Sequence[Trial]) -> list[FusionTrial]:
    """The judged trials of whole commands, as fusion has them."""
    return [
        FusionTrial(trial.llr[:3], trial.template, trial.speaker, trial.attack, trial.system)  # type: ignore[arg-type]
        for trial in trials
        if trial.judged and trial.whole
    ]


def measure(trials: Sequence[FusionTrial], combinations: int, seed: int) -> dict[str, Any]:
    """Both tables with the counts behind them; a protocol that the data cannot bear is None, with the reason.

    Raises:
        StudyError: no genuine, spoofed or replayed trial.
    """
    counts = Counter(trial.scenario for trial in trials)
    needed = ("target/none", "nontarget/none")
    attacks = Counter(trial.attack for trial in trials)
    if missing := [name for name in needed if not counts[name]] + [
        kind for kind in ("spoof", "replay") if not attacks[kind] + attacks["replayed-spoof"]
    ]:
        raise StudyError(f"table II needs trials of {', '.join(missing)}; the scores hold {dict(counts)}")
    result: dict[str, Any] = {
        "trials": dict(counts),
        "combinations": 8 * -(-combinations // 8),
        "folds": FOLDS,
        "svm_training_trials": SVM_TRIALS,
        PAPER: cross_validate(paper_folds(trials, combinations, seed), seed, "paper's protocol"),
        DISJOINT: None,
    }
    folds = honest_folds(trials, seed)
    if len(folds) < FOLDS:
        reason = f"only {len(folds)} of {FOLDS} folds hold both classes: too few people or attack systems"
        return result | {"disjoint_reason": reason}
    sizes = [{"train": len(fold[1]), "test": len(fold[3])} for fold in folds]
    return result | {DISJOINT: cross_validate(folds, seed, "disjoint folds"), "disjoint_sizes": sizes}


def tables(result: dict[str, Any]) -> list[Table]:
    """One table a protocol; recall equals accuracy in both, since it is weighted by class, as the paper's must be."""
    counted = "; ".join(f"{name} {count}" for name, count in sorted(result["trials"].items()))
    headers = ("%", *(column.replace("_", " ") for column in COLUMNS))
    paper = Table(
        "Table II: fusion by the paper's protocol",
        f"Mean and standard deviation over {result['folds']} random folds of {result['combinations']} combinations of "
        f"independently drawn scores, one in eight authentic: always refusing already has an accuracy of 87.5 %. Each "
        f"SVM learnt at most {result['svm_training_trials']} trials of its fold. Drawn from trials: {counted}.",
        headers,
        _rows(result[PAPER]),
    )
    if result[DISJOINT] is None:
        text = f"Not measured: {result['disjoint_reason']}."
        return [paper, Table("Table II: fusion by disjoint folds", text, ("",), [])]
    sizes = ", ".join(f"{fold['train']} / {fold['test']}" for fold in result["disjoint_sizes"])
    disjoint = Table(
        "Table II: fusion by disjoint folds",
        "The three scores of one clip together; no person and no attack system on both sides of a fold; half of each "
        f"side authentic. Trials trained / tested on: {sizes}.",
        headers,
        _rows(result[DISJOINT]),
    )
    return [paper, disjoint]


def _rows(part: dict[str, Any]) -> list[list[str]]:
    return [[name, *(spread(figures[column]) for column in COLUMNS)] for name, figures in part.items()]
