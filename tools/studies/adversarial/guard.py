"""Make the agent's guard from a finished study: a cheap transform as ONNX, with thresholds from the genuine trials.

The guard's score is minus the fall of the cosine when the utterance is copied. Thresholds come from genuine target
trials, the calibration also from attacked non-target ones; a second study (--test), on other people, is only reported.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from tools.evaluation.report import rate
from tools.studies.adversarial.config import GENUINE, Study, read_study
from tools.studies.adversarial.detect import RESULT
from tools.studies.adversarial.scores import Floats, read_scores
from tools.studies.adversarial.transforms import TAPS, LowPass, Quantise, load_transform
from tools.studies.errors import StudyError
from tools.studies.results import read_json
from tools.train.cards import write_card
from tools.train.metrics import fit_calibration, threshold_at_bpcer
from voiceid.audio.level import SPEECH_DBFS
from voiceid.models.card import SCHEMA, Calibration, Card, Threshold, TrainingData
from voiceid.models.store import find_model
from voiceid.scoring.guard import FRONTEND, IDENTITY, INPUT, OUTPUT
from voiceid.types import SAMPLE_RATE

REFUSED = {"convenience": 0.005, "balanced": 0.01, "strict": 0.015}
"""Share of genuine target trials that the guard may refuse, by operating point."""
LEAST_ATTACKED = 8
"""Attacked non-target trials that a calibration needs."""
OPSET = 17
PARITY = 1e-5
"""Greatest difference of a sample between the ONNX copy and the study's."""


@dataclass(frozen=True, slots=True)
class Falls:
    """Raw guard scores of one study: of genuine ``owners`` (n,), and of non-target trials ``attacked`` by condition."""

    owners: Floats
    attacked: dict[str, Floats]

    @classmethod
    def of(cls, study: Study, transform: str) -> Falls:
        """Read them.

        Raises:
            StudyError: the study was not finished, or did not try ``transform``.
        """

        def raw(name: str, *, target: bool) -> Floats:
            scores = read_scores(study.output / "scores" / f"{name}.csv", (transform,))
            rows = scores.target == target
            return scores.copied[transform][rows] - scores.plain[rows]

        result = read_json(study.output / RESULT)
        sha256 = find_model(study.card, "identity").card.sha256
        if result["card"]["sha256"] != sha256:
            raise StudyError(f"{study.output}: measured on another identity model than {study.card!r}; run it again")
        attacked = {name: raw(name, target=False) for name in result["attacks"]}
        return cls(raw(GENUINE, target=True), {name: own for name, own in attacked.items() if len(own)})


def graph(transform: str) -> onnx.ModelProto:
    """``transform`` as ONNX: samples (1, n) to their copy (1, n).

    Raises:
        StudyError: it has no such form; only low-pass filters and quantisers are cheap enough for every utterance.
    """
    made = load_transform(transform)
    if isinstance(made, Quantise):
        nodes = [
            helper.make_node("Mul", [INPUT, "steps"], ["scaled"]),
            helper.make_node("Round", ["scaled"], ["rounded"]),
            helper.make_node("Div", ["rounded", "steps"], [OUTPUT]),
        ]
        constants = {"steps": np.float32(2 ** (made.bits - 1))}
    elif isinstance(made, LowPass):
        nodes = [
            helper.make_node("Unsqueeze", [INPUT, "axis"], ["signal"]),
            helper.make_node("Conv", ["signal", "kernel"], ["filtered"], pads=[TAPS // 2] * 2),
            helper.make_node("Squeeze", ["filtered", "axis"], [OUTPUT]),
        ]
        constants = {"axis": np.array([1]), "kernel": made.kernel().numpy()}
    else:
        raise StudyError(f"transform {transform!r} is none for the device; take lowpass-HZ or quantise-BITS")
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "n"]) for name in (INPUT, OUTPUT)]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    built = helper.make_graph(nodes, "guard", shapes[:1], shapes[1:], initializers)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="voiceid")
    model.ir_version = 9
    onnx.checker.check_model(model, full_check=True)
    return model


def parity(model: onnx.ModelProto, transform: str) -> float:
    """Greatest difference of a sample between the copy by ``model`` and by the study's ``transform``, on noise.

    Raises:
        ValueError: more than :data:`PARITY`.
    """
    samples = np.random.default_rng(0).normal(0, 0.05, SAMPLE_RATE).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (copy,) = session.run([OUTPUT], {INPUT: samples[None]})
    error = float(np.abs(copy[0] - load_transform(transform)(torch.from_numpy(samples)).numpy()).max())
    if not error <= PARITY:
        raise ValueError(f"{transform}: the ONNX copy differs by {error:.1e}, more than {PARITY:.0e}")
    return error


def make_guard(study: Study, transform: str, test: Study | None, folder: Path, command: str) -> Card:
    """Write the guard's ONNX file and card into ``folder``.

    Raises:
        StudyError: a study was not finished, tried others, or has too few trials.
    """
    falls = Falls.of(study, transform)
    attacked = np.concatenate([np.empty(0), *falls.attacked.values()])
    if len(falls.owners) * REFUSED["strict"] < 1 or len(attacked) < LEAST_ATTACKED:
        least = f"{1 / REFUSED['strict']:.0f} and {LEAST_ATTACKED}"
        raise StudyError(
            f"{study.output}: {len(falls.owners)} genuine target and {len(attacked)} attacked non-target trials; "
            f"a guard needs {least}: raise tests, limit or impostors in its lists"
        )
    scale, offset = fit_calibration(falls.owners, attacked)
    described = (
        f"{len(falls.owners)} genuine target trials and {len(attacked)} non-target trials attacked by "
        f"{', '.join(falls.attacked)}"
    )
    thresholds = {
        point: Threshold(
            scale * threshold_at_bpcer(falls.owners, share) + offset,
            f"BPCER {share:.1%} on {len(falls.owners)} genuine trials",
        )
        for point, share in REFUSED.items()
    }
    model = graph(transform)
    metrics: dict[str, Any] = {"dev": rates(falls, scale, offset, thresholds), "onnx_parity": parity(model, transform)}
    if test is not None:
        metrics["test"] = rates(Falls.of(test, transform), scale, offset, thresholds)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "guard.onnx")
    card = Card(
        schema=SCHEMA,
        name="guard",
        role="guard",
        version="1.0.0",
        description=f"Copies an utterance by {transform}; its score is minus the fall of the identity cosine.",
        file="guard.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=SAMPLE_RATE,
        frontend=FRONTEND,
        level_dbfs=SPEECH_DBFS,
        min_seconds=0.5,
        window_seconds=None,
        calibration=Calibration(scale, offset, described),
        thresholds=thresholds,
        training_data=[TrainingData("development split of the corpus (LibriSpeech, MLS)", "CC BY 4.0", described)],
        metrics=metrics,
        command=command,
        licence="MIT",
        parameters={"transform": transform, IDENTITY: find_model(study.card, "identity").card.sha256},
    )
    write_card(card, folder)
    return card


def rates(falls: Falls, scale: float, offset: float, thresholds: dict[str, Threshold]) -> dict[str, Any]:
    """BPCER, and APCER by attack, at each operating point, with counts and 95 % intervals."""

    def share(raw: Floats, least: float, *, passing: bool) -> dict[str, Any]:
        return rate(int(np.sum((scale * raw + offset >= least) == passing)), len(raw))

    return {
        point: {
            "bpcer": share(falls.owners, threshold.value, passing=False),
            "apcer": {name: share(own, threshold.value, passing=True) for name, own in falls.attacked.items()},
        }
        for point, threshold in thresholds.items()
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="TOML file of a finished study on development speakers")
    parser.add_argument("--transform", required=True, help="lowpass-HZ or quantise-BITS, one that the study tried")
    parser.add_argument("--test", type=Path, metavar="STUDY", help="TOML file of one on other people, to report")
    parser.add_argument("-o", "--output", type=Path, default=Path("models"), help="folder of the card (default models)")


def run(arguments: argparse.Namespace) -> int:
    test = None if arguments.test is None else read_study(arguments.test)
    tested = "" if arguments.test is None else f" --test {arguments.test}"
    command = f"python -m tools.studies.adversarial guard {arguments.study} --transform {arguments.transform}{tested}"
    card = make_guard(read_study(arguments.study), arguments.transform, test, arguments.output, command)
    print(json.dumps(card.metrics, indent=1))
    return 0
