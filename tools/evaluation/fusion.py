"""Fusion: five classifiers over the judges' scores, the table of the VoiceID study and an honest one beside it."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np

from tools.evaluation.audio import load_utterance
from tools.evaluation.fusion_table import FOLDS, SVM_TRIALS, cross_validate, honest_folds, paper_folds
from tools.evaluation.options import EvaluationError, Options
from tools.evaluation.parallel import Account, each
from tools.evaluation.report import card_summary, detection, table
from tools.evaluation.selection import choose, limited, system
from tools.evaluation.trials import Embedding, enrol
from tools.train.data.corpus import Item
from tools.train.data.fusion_set import Bench, Clip, FusionTrial, build
from voiceid.models.store import find_model
from voiceid.scoring.fusion import FusionModel

KINDS = ("tts", "vc", "vocoder", "replay")
COLUMNS = ("accuracy", "precision", "recall", "f1", "balanced_accuracy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--combinations", type=int, default=120_000, metavar="N", help="by the paper's protocol (default 120000)"
    )
    parser.add_argument("--strangers", type=int, default=6, metavar="N", help="templates of others for each clip")
    parser.epilog = (
        "Scores: test speakers of $VOICEID_CORPUS as recorded, in simulated rooms, copied, replayed, and the attacks "
        "that the index holds. --card measures another fusion card."
    )


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its tables, and the account of files."""
    account = Account()
    bench = Bench()
    trials = build("test", bench, seed=options.seed, strangers=arguments.strangers)
    trials += recorded_attacks(options, bench, account)
    paper = cross_validate(paper_folds(trials, arguments.combinations, options.seed), options.seed, "paper's protocol")
    folds = honest_folds(trials, options.seed)
    if len(folds) < FOLDS:
        raise EvaluationError(
            f"only {len(folds)} of {FOLDS} folds hold both classes: too few speakers or attack systems"
        )
    honest = cross_validate(folds, options.seed, "disjoint folds")
    fusion = FusionModel(find_model(options.card or "fusion", "fusion"))
    probabilities = np.array([fusion.probability(*trial.llr) for trial in trials])
    authentic = np.array([trial.authentic for trial in trials])
    speakers = np.array([trial.speaker for trial in trials])
    groups = (list(speakers[authentic]), list(speakers[~authentic]))
    result = {
        "command": "fusion",
        "card": card_summary(fusion.card),
        "cards": [card_summary(judge.card) for judge in bench.judges.values()],
        **detection(probabilities[authentic], probabilities[~authentic], groups, ("authentic", "other")),
        "n_target": int(authentic.sum()),
        "n_nontarget": int((~authentic).sum()),
        "n_combinations": 8 * -(-arguments.combinations // 8),
        "svm_training_trials": SVM_TRIALS,
        "honest_fold_sizes": [{"train": len(fold[1]), "test": len(fold[3])} for fold in folds],
        "trials": dict(Counter(trial.scenario for trial in trials)),
        "speakers": len(set(speakers)),
        "systems": dict(Counter(trial.system for trial in trials if trial.attack != "none")),
        "paper_protocol": paper,
        "honest_protocol": honest,
        "by": {"kind": _by_scenario(trials, probabilities, authentic, speakers), "set": {}, "note": {}},
    }
    return result, describe(result), account


def recorded_attacks(options: Options, bench: Bench, account: Account) -> list[FusionTrial]:
    """The index's attacks on speakers that it can enrol; the others show the judges alone, on nobody's template."""
    items = choose(options, KINDS)
    attacks = limited([item for item in items if item.kind != "bonafide"], options)

    def embed_all(batch: list[Item]) -> dict[Item, Embedding]:
        return dict(
            each(
                lambda: lambda i: bench.embed(load_utterance(i).net_speech()),
                batch,
                jobs=1,
                account=account,
                label="enrol",
            )
        )

    claimed = {item.speaker for item in attacks} - {""}
    bonafide = [item for item in items if item.kind == "bonafide" and item.speaker in claimed]
    enrolled = enrol(bonafide, embed_all, seed=options.seed, dropped=account.dropped) if bonafide else []
    references = {e.speaker: bench.enrol([load_utterance(item) for item in e.items]) for e in enrolled}

    def clip(item: Item) -> Clip:
        utterance = load_utterance(item)
        attack = "replay" if item.kind == "replay" else "spoof"
        return Clip(utterance.samples, utterance.net_speech(), attack, system(item).split(":")[0])

    aimed = [item for item in attacks if item.speaker in references]
    account.dropped["attack on nobody enrolled"] += len(attacks) - len(aimed)
    clips = each(lambda: clip, aimed, jobs=1, account=account, label="attacks")
    return [
        trial
        for item, made in clips
        for trial in bench.trials(made, item.speaker, {item.speaker: references[item.speaker]})
    ]


def _by_scenario(
    trials: list[FusionTrial],
    probabilities: np.ndarray[Any, Any],
    authentic: np.ndarray[Any, Any],
    speakers: np.ndarray[Any, Any],
) -> dict[str, Any]:
    scenarios = np.array([trial.scenario for trial in trials])
    parts = {}
    for name in sorted(set(scenarios[~authentic])):
        rows = scenarios == name
        groups = (list(speakers[authentic]), list(speakers[rows]))
        parts[str(name)] = detection(probabilities[authentic], probabilities[rows], groups, ("authentic", "other"))
    return parts


def describe(result: dict[str, Any]) -> str:
    """Both tables: mean and standard deviation over the folds, in per cent."""
    lines = []
    for title, key in (
        (
            f"the paper's protocol: {result['n_combinations']} combinations of independent scores, random folds",
            "paper_protocol",
        ),
        ("folds disjoint by speaker and attack system, half authentic, scores of the same clip", "honest_protocol"),
    ):
        rows = [
            [name, *(f"{100 * f[c]['mean']:.2f} ± {100 * f[c]['sd']:.2f}" for c in COLUMNS)]
            for name, f in result[key].items()
        ]
        lines += [title, table(["%", *(c.replace("_", " ") for c in COLUMNS)], rows), ""]
    eer = result["eer"]
    lines.append(f"shipped fusion on the same clips: EER {100 * eer:.2f} % authentic against all others")
    lines += [
        f"  {name}: EER {100 * part['eer']:.2f} % ({part['n_other']} trials)"
        for name, part in result["by"]["kind"].items()
    ]
    return "\n".join(lines)
