"""Small but real models for the judges, so that measurements can be tested without the shipped ones.

Identity: mean and deviation of the log-mel bands. Spoofing: energy of the waveform's second difference. Liveness: one
VOID feature. Fusion: the SVM's graph. They run in onnxruntime behind cards, as any model does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.train.cards import write_card
from tools.train.export.fusion import graph
from tools.train.fusion_svm import FusionSvm
from voiceid.models.card import SCHEMA, Calibration, Card, Role, Threshold

WINDOW = 64_600


def write_models(folder: Path) -> Path:
    """Write ``identity-pi``, ``spoofing-pi``, ``liveness`` and ``fusion`` with their cards into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    points = {name: Threshold(0.0, "none") for name in ("convenience", "balanced", "strict")}
    consistency = {
        "least_seconds": 1.0,
        "hop_seconds": 0.5,
        "undivided": 1.0,
        "calibration": {"scale": 1.0, "offset": 3.0, "calibration_set": "none"},
        "thresholds": {name: {"value": 0.0, "operating_point": "none"} for name in points},
    }
    _save(folder, "identity-pi", _identity())
    _card(folder, "identity-pi", "identity", "log-mel", (400.0, -398.0), points, {"consistency": consistency})
    _save(folder, "spoofing-pi", _spoofing())
    _card(folder, "spoofing-pi", "spoofing", "waveform", (1.0, 0.0), points, {"hop_seconds": 4.0}, 64_600 / 16_000)
    _save(folder, "liveness", _liveness())
    _card(folder, "liveness", "liveness", "void-97", (1.0, 0.0), points)
    onnx.save(graph(FusionSvm(np.array([1.0, 0.3, 0.3]), 1.0, 2.0, 0.0)), folder / "fusion.onnx")
    half = {name: Threshold(0.5, "none") for name in points}
    _card(folder, "fusion", "fusion", "llr-3", None, half)
    return folder


def _card(
    folder: Path,
    name: str,
    role: Role,
    frontend: str,
    calibration: tuple[float, float] | None,
    thresholds: dict[str, Threshold],
    parameters: dict[str, object] | None = None,
    window: float | None = None,
) -> None:
    card = Card(
        schema=SCHEMA,
        name=name,
        role=role,
        version="0",
        description="for tests",
        file=f"{name}.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend=frontend,
        level_dbfs=None if role == "fusion" else -26.0,
        min_seconds=0.5,
        window_seconds=window,
        calibration=None if calibration is None else Calibration(*calibration, "none"),
        thresholds=thresholds,
        training_data=[],
        metrics={},
        command="",
        licence="MIT",
        parameters=parameters or {},
    )
    write_card(card, folder)


def _save(folder: Path, name: str, built: onnx.GraphProto) -> None:
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def _identity() -> onnx.GraphProto:
    nodes = [
        helper.make_node("ReduceMean", ["features"], ["mean"], axes=[1, 3], keepdims=1),
        helper.make_node("Sub", ["features", "mean"], ["rest"]),
        helper.make_node("ReduceL2", ["rest"], ["length"], axes=[1, 3], keepdims=0),
        helper.make_node("Add", ["length", "least"], ["positive"]),
        helper.make_node("Log", ["positive"], ["spread"]),
        helper.make_node("Squeeze", ["mean", "sides"], ["centre"]),
        helper.make_node("Concat", ["centre", "spread"], ["embedding"], axis=1),
    ]
    return helper.make_graph(
        nodes,
        "identity",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "frames", 64, 1])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 128])],
        [
            numpy_helper.from_array(np.array([1, 3], np.int64), "sides"),
            numpy_helper.from_array(np.array(1e-3, np.float32), "least"),
        ],
    )


def _spoofing() -> onnx.GraphProto:
    kernel = np.array([[[1.0, -2.0, 1.0]]], np.float32)
    nodes = [
        helper.make_node("Unsqueeze", ["waveform", "one"], ["wide"]),
        helper.make_node("Conv", ["wide", "kernel"], ["differences"]),
        helper.make_node("ReduceL2", ["differences"], ["energy"], axes=[2], keepdims=0),
        helper.make_node("Log", ["energy"], ["genuine"]),
        helper.make_node("Neg", ["genuine"], ["artificial"]),
        helper.make_node("Concat", ["artificial", "genuine"], ["logits"], axis=1),
    ]
    return helper.make_graph(
        nodes,
        "spoofing",
        [helper.make_tensor_value_info("waveform", TensorProto.FLOAT, ["batch", WINDOW])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(np.array([1], np.int64), "one"), numpy_helper.from_array(kernel, "kernel")],
    )


def _liveness() -> onnx.GraphProto:
    weights = np.zeros((97, 1), np.float32)
    weights[96] = 1.0
    return helper.make_graph(
        [helper.make_node("MatMul", ["features", "weights"], ["score"])],
        "liveness",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 97])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(weights, "weights")],
    )
