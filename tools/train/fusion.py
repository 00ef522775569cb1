"""Train the fusion on the shipped cards' development scores and write its card: ``python -m tools.train.fusion``.

The judges score the clips of :mod:`tools.train.data.fusion_set`; the SVM's cost is chosen by cross-validation over
speakers. The probability must rise with every score: an attacker must never gain by looking less like the owner. Test
speakers, rooms and loudspeakers are only reported.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from tools.evaluation.memory import cache_folder
from tools.train.cards import write_card
from tools.train.data.fusion_set import JUDGES, Bench, FusionTrial, build
from tools.train.export.fusion import export
from tools.train.fusion_svm import CLIP, FusionSvm, fit, largest_fall, normalise, scenario_weights
from tools.train.metrics import a_dcf, cllr, threshold_at_bpcer
from voiceid.models.card import SCHEMA, Card, Threshold, TrainingData

Floats = NDArray[np.float64]
COSTS = (0.01, 0.1, 1.0)
FOLDS = 4
REFUSED = {"convenience": 0.005, "balanced": 0.015, "strict": 0.04}
"""Share of authentic development trials that the fused score may refuse, by operating point."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Trials as arrays: ``llr`` (n, 3), ``authentic`` (n,), ``speakers`` and ``scenarios`` (n,)."""

    llr: Floats
    authentic: NDArray[np.bool_]
    speakers: NDArray[np.str_]
    scenarios: NDArray[np.str_]

    @classmethod
    def of(cls, trials: list[FusionTrial]) -> Table:
        return cls(
            np.array([t.llr for t in trials]),
            np.array([t.authentic for t in trials], bool),
            np.array([t.speaker for t in trials]),
            np.array([t.scenario for t in trials]),
        )

    def __getitem__(self, rows: NDArray[Any]) -> Table:
        return Table(self.llr[rows], self.authentic[rows], self.speakers[rows], self.scenarios[rows])

    def cost(self, scores: Floats) -> float:
        """Least a-DCF of fused ``scores`` (n,): owners, strangers, and attacks on the owner's template."""
        stranger = self.scenarios == "nontarget/none"
        attack = ~self.authentic & ~stranger & np.char.startswith(self.scenarios, "target/")
        return a_dcf(scores[self.authentic], scores[stranger], scores[attack])


def train(table: Table) -> tuple[FusionSvm, Floats, dict[str, Any]]:
    """The SVM of least a-DCF in cross-validation, its out-of-fold probabilities of every trial, and the choice."""
    tried = [(*_cross_validate(table, cost), cost) for cost in COSTS]
    value, decisions, cost = min(tried, key=lambda one: one[0])
    machine = _fit(table, cost).calibrated(decisions, table.authentic)
    probabilities = 1 / (1 + np.exp(-(machine.scale * decisions + machine.offset)))
    return machine, probabilities, {"cost": cost, "min_a_dcf": value}


def _fit(table: Table, cost: float) -> FusionSvm:
    return fit(table.llr, table.authentic, scenario_weights(list(table.scenarios), table.authentic), cost=cost)


def _cross_validate(table: Table, cost: float) -> tuple[float, Floats]:
    """Least a-DCF and the out-of-fold decisions, over folds that share no enrolled speaker."""
    decisions = np.zeros(len(table.llr))
    for inside, outside in GroupKFold(FOLDS).split(table.llr, groups=table.speakers):
        decisions[outside] = _fit(table[inside], cost).decision(table.llr[outside])
    return table.cost(decisions), decisions


def rates(table: Table, probabilities: Floats, threshold: float) -> dict[str, float]:
    """Share of authentic trials refused, and of each other scenario accepted."""
    accepted = probabilities >= threshold
    others = sorted(set(table.scenarios[~table.authentic]))
    return {"frr": float(1 - accepted[table.authentic].mean())} | {
        f"accepted {name}": float(accepted[(table.scenarios == name) & ~table.authentic].mean()) for name in others
    }


def report(table: Table, machine: FusionSvm, dev: Table, thresholds: dict[str, Threshold]) -> dict[str, Any]:
    """Figures on unseen speakers, beside the sum of the scores and logistic regression."""
    probabilities = machine(table.llr)
    logistic = LogisticRegression(max_iter=1000).fit(
        normalise(dev.llr), dev.authentic, sample_weight=scenario_weights(list(dev.scenarios), dev.authentic)
    )
    log_odds = np.log(probabilities / (1 - probabilities))
    return {
        "n_authentic": int(table.authentic.sum()),
        "n_other": dict(Counter(table.scenarios[~table.authentic])),
        "speakers": len(set(table.speakers)),
        "min_a_dcf": table.cost(probabilities),
        "min_a_dcf_logistic_regression": table.cost(logistic.decision_function(normalise(table.llr))),
        "min_a_dcf_sum_of_llr": table.cost(table.llr.sum(axis=1)),
        "cllr": cllr(log_odds[table.authentic], log_odds[~table.authentic]),
        "rates": {point: rates(table, probabilities, t.value) for point, t in thresholds.items()},
    }


def make_card(
    machine: FusionSvm, bench: Bench, metrics: dict[str, Any], thresholds: dict[str, Threshold], error: float
) -> Card:
    cards = {role: judge.card for role, judge in bench.judges.items()}
    return Card(
        schema=SCHEMA,
        name="fusion",
        role="fusion",
        version="1.4.0",
        description="SVM with calibrated probability over the identity, spoofing and liveness log-likelihood ratios, "
        "clipped and turned into log-probabilities inside the graph; rises with each of them.",
        file="fusion.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend="llr-3",
        level_dbfs=None,
        min_seconds=1.0,
        window_seconds=None,
        calibration=None,
        thresholds=thresholds,
        training_data=[
            TrainingData(
                "development split of the corpus (LibriSpeech, MLS)", "CC BY 4.0", f"{metrics['dev']['trials']} trials"
            ),
            TrainingData("copies and simulated replays of it, made here", "MIT", "of those trials, the attacks"),
        ],
        metrics={**metrics, "onnx_parity": error},
        command="python -m tools.train.fusion",
        licence="MIT",
        parameters={
            "clip_llr": CLIP,
            "weights": dict(zip(JUDGES, (machine.scale * machine.weights).tolist(), strict=True)),
            "judges": {role: {"name": card.name, "sha256": card.sha256} for role, card in cards.items()},
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--identity", help="identity card to fuse (name or path; default: the shipped one)")
    parser.add_argument("--spoofing", help="spoofing card to fuse")
    parser.add_argument("--liveness", help="liveness card to fuse")
    parser.add_argument("--output", type=Path, default=Path("models"), help="folder of the card (default models)")
    parser.add_argument("--no-test", dest="test", action="store_false", help="leave out the report on test speakers")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    bench = Bench({r: c for r in ("identity", "spoofing", "liveness") if (c := getattr(arguments, r))})
    dev = Table.of(build("dev", bench, seed=arguments.seed))
    machine, probabilities, chosen = train(dev)
    owners = probabilities[dev.authentic]
    thresholds = {
        point: Threshold(
            threshold_at_bpcer(owners, share),
            f"refuses {share:.1%} of {owners.size} authentic trials of {len(set(dev.speakers))} development speakers",
        )
        for point, share in REFUSED.items()
    }
    metrics: dict[str, Any] = {
        "dev": {
            "trials": len(dev.llr),
            "scenarios": dict(Counter(dev.scenarios)),
            **chosen,
            "rates": {point: rates(dev, probabilities, t.value) for point, t in thresholds.items()},
        },
        "largest_fall": largest_fall(machine),
    }
    if arguments.test:
        metrics["test"] = report(Table.of(build("test", bench, seed=arguments.seed)), machine, dev, thresholds)
    checkpoint = cache_folder().parent / "fusion" / "fusion.npz"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    machine.save(checkpoint)
    arguments.output.mkdir(parents=True, exist_ok=True)
    error = export(checkpoint, arguments.output / "fusion.onnx")
    path = write_card(make_card(machine, bench, metrics, thresholds, error), arguments.output)
    print(json.dumps(metrics, indent=1))
    print(f"{path}: parity {error:.1e}, {(arguments.output / 'fusion.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
